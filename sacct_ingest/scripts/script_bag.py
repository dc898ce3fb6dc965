"""The words of a job script as a small bag: what is kept of its text to compare it by.

Programs, modules and settings of a script fall into `BITS` bins.  Many words share a bin, so the
bag does not say which words a script has.
"""

import re
from typing import Final
from zlib import crc32

from sacct_ingest.scripts.engines import template
from sacct_ingest.scripts.job_script import bounded_cache, parse_script

BITS: Final = 256
_MOST: Final = 16 * 1024  #: characters of a script that are read
_WORD: Final = re.compile(r"[^\s;|&()<>\"'`]{2,}")


@bounded_cache(entries=256, characters=16_384)
def bag_of(script: str) -> str:
    r"""Give the bag of a script's words, 64 hexadecimal digits; empty where it has none.

    Comments, ``#SBATCH`` lines and what is volatile are left out.  A command of ``--wrap`` has no
    bag: its words stand in the submit line.

    >>> bag_of("#!/bin/sh\n#SBATCH -N 2\nsrun ./solve\n") == bag_of("#!/bin/sh\nsrun ./solve\n")
    True
    """
    parsed = parse_script(script)
    if parsed.wrapped:
        return ""
    bag = 0
    for word in _WORD.findall(template(parsed.body[:_MOST])):
        bag |= 1 << crc32(word.encode(errors="replace")) % BITS
    return f"{bag:0{BITS // 4}x}" if bag else ""
