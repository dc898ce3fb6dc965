"""Amounts of a present profile, read as people write them and never evaluated.

``4 * attempt``, ``{ 6.GB * task.attempt }``, ``'1d 2h'``.  Of other expressions nothing is known.
"""

import re
from collections.abc import Mapping
from math import inf

#: Run time in seconds and memory in bytes at the first attempt; None: nothing that can be read.
Asked = tuple[float | None, float | None]
#: An amount, bare, quoted or in a closure, with what it grows by after the first attempt.
_FIRST = re.compile(
    r"\{?\s*(?:min\(\d+, *|check_max\( *|attempt *\*|task\.attempt > 1 \? [^:]* : [^:]* : )?"
    r"\s*['\"]?(?P<first>\d[\w. ]*?)['\"]?\s*"
    r"(?:\*\s*\(?(?:task\.)?attempt\b.*|\*\s*2 \*\* \(attempt .*|if attempt == 1 else .*"
    r"|, *'\w+' *\))?\s*\}?",
    re.ASCII,
)
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)[ .]*([a-z]?)[a-z]*", re.ASCII)
SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
BYTES = {letter: 1024.0**power for power, letter in enumerate("bkmgt")}


def amount_in(value: object, units: Mapping[str, float], bare: str = "") -> float | None:
    """Read an amount, by what each of its units is; None: it is nothing that can be read.

    bare: the unit of a number that has none.
    """
    found = _FIRST.fullmatch(str(value).strip())
    parts = _AMOUNT.findall(found["first"].lower()) if found else []
    factors = [units.get(letter or bare, inf) for _, letter in parts]
    total = sum(float(number) * factor for (number, _), factor in zip(parts, factors, strict=True))
    return total if 0 < total < inf else None
