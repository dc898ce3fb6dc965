"""Arrays that Snakemake's plugin for Slurm submits (``--slurm-array-jobs``).

Such a submission wraps the command of its first task.  Those of the others stand behind an option
of it: JSON in base64, by index of the task, each command compressed and in hexadecimal digits.
"""

import base64
import binascii
import re
import zlib
from typing import Final

import msgspec

from sacct_ingest.scripts.input_words import PACKED

_PAYLOAD = re.compile(rf"{PACKED}[= ]'?([A-Za-z0-9+/=]+)")
_LONGEST: Final = 64 * 1024  #: of a command, unpacked


def command_of_task(text: str, task: int) -> str:
    """Give the command of one task of an array; empty: it cannot be read.

    text: what the submission wraps.
    """
    found = _PAYLOAD.search(text)
    if found is None:
        return ""
    try:
        packed = msgspec.json.decode(base64.b64decode(found[1], validate=True), type=dict[str, str])
        if own := packed.get(f"{task}"):
            command = zlib.decompressobj().decompress(bytes.fromhex(own), _LONGEST)
            return command.decode(errors="replace")
        first = min(map(int, packed)) - 1
    except (ValueError, binascii.Error, zlib.error, msgspec.DecodeError):
        return ""
    return text[: found.start()] if task == first else ""
