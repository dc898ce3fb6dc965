"""Numbers of the command line; wrong ones are usage errors that say what is right."""

import argparse
from math import inf

_HALF, _ALL = 50.0, 100.0


def whole(text: str) -> int:
    """Read a whole number from 0 on.

    >>> whole("12")
    12
    """
    if not (text.isascii() and text.isdecimal()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 on")
    return int(text)


def share(text: str) -> float:
    """Read a share.

    >>> share("0.25")
    0.25
    """
    number = _number(text)
    if not 0 <= number <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not a share from 0 to 1")
    return number


def percentage(text: str) -> float:
    """Read a percentage above 50 and below 100, as a share.

    >>> percentage("95"), percentage("99.5%")
    (0.95, 0.995)
    """
    number = _number(text.removesuffix("%"))
    if not _HALF < number < _ALL:
        raise argparse.ArgumentTypeError(f"{text} is not above 50 and below 100")
    return number / _ALL


def positive(text: str) -> float:
    """Read a number above 0.

    >>> positive("1.5")
    1.5
    """
    number = _number(text)
    if not 0 < number < inf:
        raise argparse.ArgumentTypeError(f"{text} is not above 0")
    return number


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from error
