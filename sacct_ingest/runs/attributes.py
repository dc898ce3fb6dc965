"""What a request and a finished run say of a job besides its size: attributes, by name.

Runs with one key may be several problems.  Which of these attributes distinguishes them, if any, is
decided by their run times (:mod:`predictor.tables.split`).
"""

from collections.abc import Iterator, Mapping, Sequence

COMMAND, ARGUMENT = "command", "argument "
TIME_LIMIT, MEMORY, ACCOUNT = "time limit", "memory", "account"
WORK_DIR, SCRIPT = "working directory", "script"
_MIB = 2**20
#: Characters of a name or value that are shown.
LONGEST = 40


def attributes(
    words: Sequence[str],
    *,
    account: str = "",
    limit_s: float | None = None,
    mem_node_bytes: float | None = None,
    work_dir: str = "",
    script: str = "",
) -> dict[str, str]:
    """Give the attributes of a job by name; what the job does not say is left out.

    words: command and its arguments, as `sacct_ingest.scripts.signature` spells them.
    mem_node_bytes: memory that it asks for on each node.
    script: key of its script.

    >>> attributes(("run.sh", "KPAR=9", "--input", "a.dat", "4x4"), limit_s=7200)
    {'command': 'run.sh', 'KPAR': '9', '--input': 'a.dat', 'argument 1': '4x4', \
'time limit': '7200'}
    """
    more = {
        TIME_LIMIT: f"{limit_s:.0f}" if limit_s else "",
        MEMORY: f"{mem_node_bytes / _MIB:.0f}" if mem_node_bytes else "",
        ACCOUNT: account,
        WORK_DIR: work_dir,
        SCRIPT: script,
    }
    given = {COMMAND: words[0]} | dict(_arguments(words[1:])) if words else {}
    return given | {name: value for name, value in more.items() if value}


def _arguments(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Name each argument: by what is before its equals sign, by its option, or by its place."""
    place, option = 0, ""
    for word in words:
        name, equals, value = word.partition("=")
        if equals and name:
            yield name, value
            option = ""
        elif word.startswith("-"):
            yield word, "given"
            option = word
        elif option:
            yield option, word
            option = ""
        else:
            place += 1
            yield f"{ARGUMENT}{place}", word


def describe(values: Mapping[str, str]) -> str:
    """Name a set of attributes in words.

    >>> describe({"KPAR": "9", "time limit": "7200", "--input": ""})
    'KPAR=9, a time limit of 2:00:00 and no --input'
    """
    words = [_word(name, value) for name, value in values.items()]
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def _word(name: str, value: str) -> str:
    name, value = name[:LONGEST], value[:LONGEST]
    if not value:
        return f"no {name}"
    if name == TIME_LIMIT:
        minutes, seconds = divmod(int(value), 60)
        return f"a time limit of {minutes // 60}:{minutes % 60:02}:{seconds:02}"
    if name == MEMORY:
        return f"{value} MiB of memory on each node"
    if name.startswith(ARGUMENT):
        return f"{value} as {name}"
    if name.startswith("-"):
        return name if value == "given" else f"{name} {value}"
    return f"{name} {value}" if name in (COMMAND, ACCOUNT, WORK_DIR, SCRIPT) else f"{name}={value}"
