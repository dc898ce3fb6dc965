"""Reading what Slurm's commands print."""

from collections.abc import Sequence

# scontrol gives these a line of their own, since their values may hold blanks and "=".
WHOLE_LINE = (
    *("Command", "WorkDir", "Comment", "AdminComment", "SystemComment", "Extra"),
    *("StdErr", "StdIn", "StdOut", "SubmitLine"),
)


def job_fields(text: str) -> dict[str, str]:
    """Read ``scontrol show job``; of several records (an array) the first.

    >>> job_fields('JobId=7 JobName=a b\\n   NumNodes=2 TRES=cpu=8,node=2\\n   Comment=x y=1\\n')
    {'JobId': '7', 'JobName': 'a b', 'NumNodes': '2', 'TRES': 'cpu=8,node=2', 'Comment': 'x y=1'}
    """
    fields: dict[str, str] = {}
    for line in map(str.strip, text.partition("\n\n")[0].splitlines()):
        first, _, name = line.partition(" JobName=")
        if name:
            fields |= _pairs([*first.split(), f"JobName={name}"])
        elif line.partition("=")[0] in WHOLE_LINE:
            fields |= _pairs([line])
        else:
            fields |= _pairs(line.split())
    return fields


def _pairs(words: Sequence[str]) -> dict[str, str]:
    split = (word.partition("=") for word in words)
    return {key: value for key, equals, value in split if equals}


def table(text: str, fields: Sequence[str], separator: str) -> list[dict[str, str]]:
    """Read sacct's parsable text with its heading; a newline inside a field does not end a row.

    >>> table('A|B\\n1|x\\n2|y\\n', ('A', 'B'), '|')
    [{'A': '1', 'B': 'x'}, {'A': '2', 'B': 'y'}]
    """
    rows: list[dict[str, str]] = []
    pending = ""
    for line in text.splitlines()[1:]:
        pending += line
        if pending.count(separator) < len(fields) - 1:
            pending += "\n"
            continue
        rows.append(dict(zip(fields, pending.split(separator), strict=True)))
        pending = ""
    return rows
