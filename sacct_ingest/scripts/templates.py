"""What stays of names and command lines from run to run.

`template` cuts out what is volatile: UUIDs, hashes, dates, seconds since the epoch, temporary
names, job ids in paths and counters with leading zeros.  A text without such parts is its own
template.  Its expression looks at each character a bounded number of times, whatever the text: a
part begins where no letter or digit is before it, and what it repeats it never gives back.
"""

import re

#: Characters that are looked at; what follows stays as it is.
LONGEST = 16_384
UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_HASH = (
    r"(?=(?:\d++[a-f]++\d|[a-f]++\d++[a-f])|(?:\d++[A-F]++\d|[A-F]++\d++[A-F]))"
    r"(?:[0-9a-f]{7,128}+|[0-9A-F]{7,128}+)"
)
_PARTS = (
    UUID,
    # A date, with a time: 2024-05-31, 20240531T1200, 2024-05-31-12-00-00-123456.
    r"(?:19|20)\d\d[-_.]?(?:0[1-9]|1[0-2])[-_.]?(?:0[1-9]|[12]\d|3[01])"
    r"(?:[T_ -]?[0-2]\d[:_-]?[0-5]\d(?:[:_-]?[0-5]\d(?:[.-]\d{1,9})?)?Z?)?",
    # Seconds since the epoch, of 2001 to 2033, also with parts of a second.
    r"1\d{9}(?:\.\d{1,9}|\d{3}|\d{6}|\d{9})?",
    # Names that the C library, Python and mktemp make up.
    r"tmp(?:\.?[0-9A-Za-z]{6}|\.?[0-9A-Za-z]{10}|\.?[0-9a-z_]{8})(?!_)",
    # A hash in one case: letters and digits in turn, not 1e10 or deadbeef; as a folder, too.
    rf"(?:[0-9a-f]{{2}}/)?{_HASH}",
    # The id of a job as a folder.
    r"(?<=/)\d{6,12}(?=[/\0]|$)",
)
_COUNTER = r"0\d{2,8}"


#: How each part begins: most words are passed by at their first letters.
_BEGINNING = r"(?<![0-9A-Za-z])(?=[0-9a-fA-Ft][0-9a-fA-Fm][0-9a-fA-Fp]|[0-9a-f]{2}/)"


def _expression(*parts: str) -> re.Pattern[str]:
    return re.compile(f"{_BEGINNING}(?:{'|'.join(parts)})(?![0-9A-Za-z])", re.ASCII)


_WHOLE = re.compile(_HASH, re.ASCII)
_VOLATILE, _OF_FOLDERS = _expression(*_PARTS, _COUNTER), _expression(*_PARTS)


def template(text: str) -> str:
    """Put a star in place of each volatile part.

    >>> template("align-5f0c954e-6a1a-4d1c-9f5e-0a1b2c3d4e5f"), template("/tmp/tmpab12cd34/in.dat")
    ('align-*', '/tmp/*/in.dat')
    >>> template("plot_2024-05-31 3f9a2bc 500 deadbeef case-12 run_0007")
    'plot_* * 500 deadbeef case-12 run_*'
    """
    return _cut(_VOLATILE, text)


def name_template(name: str) -> str:
    """Put stars into a name; one that is nothing but a hash stays: those of whom names are hidden.

    >>> name_template("run_3f9a2bc"), name_template("3f9a2bc07d1e55")
    ('run_*', '3f9a2bc07d1e55')
    """
    return name if _WHOLE.fullmatch(name) else template(name)


def folder_template(folder: str) -> str:
    """Put a star in place of each volatile part of a folder, but for counters.

    Numbered folders hold one problem each.

    >>> folder_template("/scratch/3f/9a2bc07d1e55/case_001")
    '/scratch/*/case_001'
    """
    return _cut(_OF_FOLDERS, folder)


def _cut(expression: re.Pattern[str], text: str) -> str:
    return expression.sub("*", text[:LONGEST]) + text[LONGEST:]
