"""What a request and a finished run say of a job besides its size: attributes, by name.

Runs with one key may be several problems.  Which of these attributes distinguishes them, if any, is
decided by their run times (:mod:`predictor.tables.split`).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from math import inf, prod

from sacct_ingest.runs.input_sizes import numbers_in
from sacct_ingest.runs.submission import (
    ACCOUNT,
    ARGUMENT,
    ARRAY_INDEX,
    COMMAND,
    MEMORY,
    NAME,
    SAMPLE,
    SCRIPT,
    SIZE,
    TIME_LIMIT,
    WORK_DIR,
    WORKFLOW,
    Said,
    named,
)
from sacct_ingest.scripts.engines import engine_job, folder_template, name_template
from sacct_ingest.text.tag import parse_tag

_NAMED = (COMMAND, ACCOUNT, WORK_DIR, SCRIPT, SIZE, NAME, SAMPLE, WORKFLOW, ARRAY_INDEX)
#: Characters of a name or value that are shown.
LONGEST = 40
_NUMBER = re.compile(
    r"\+?((?:\d{1,15}(?:\.\d{0,20})?|\.\d{1,20})(?:[eE][+-]?\d{1,3})?)([kKMGT]?)(?:i?[bB])?",
    re.ASCII,
)
_SIGNED = re.compile(r"[+-](?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_UNITS = {"": 1.0, "k": 2.0**10, "K": 2.0**10, "M": 2.0**20, "G": 2.0**30, "T": 2.0**40}
#: Attributes whose numbers are no sizes of the problem: what is asked of Slurm, and options that
#: count processes, however they are spelled.
_NO_SIZES = frozenset({TIME_LIMIT, MEMORY, ACCOUNT, WORK_DIR, SCRIPT, COMMAND, NAME, WORKFLOW})
_COUNTED = ("p", "proc", "procs", "pes", "tasks", "nodes", "processes", "threads", "cores", "cpus")
_COUNTS = frozenset(
    f"{prefix}{what}"
    for prefix in ("", "n", "num", "ompnum")
    for what in (*_COUNTED, "gpus", "workers")
)


def attributes(  # noqa: PLR0913 - each by its name
    words: Sequence[str],
    *,
    account: str = "",
    limit_s: float | None = None,
    mem_node_bytes: float | None = None,
    work_dir: str = "",
    script: str = "",
    name: str = "",
    comment: str = "",
    export: str = "",
    array: str = "",
    inputs: str = "",
) -> dict[str, str]:
    """Give the attributes of a job by name; what the job does not say is left out.

    words: command and its arguments, as `sacct_ingest.scripts.signature` spells them.
    mem_node_bytes: memory that it asks for on each node.
    script: key of its script.
    name, comment: what the engine that submitted it says in them, and a tag's ``size``.  The
        command of an engine's job is the engine's own; a further attempt may ask for more.
    export: its ``--export``, whose values count like arguments.
    array: index of its task, or what it asks for with ``--array``: an index only where it is one.
    inputs: sizes of its input files, as `sacct_ingest.runs.input_sizes.to_text` writes them.

    >>> attributes(("run.sh", "KPAR=9", "--input", "a.dat", "4x4"), limit_s=7200)
    {'command': 'run.sh', 'KPAR': '9', '--input': 'a.dat', 'argument 1': '4x4', \
'time limit': '7200'}
    """
    said = said_by(words, name=name, comment=comment, export=export)
    sizes = {name: f"{number:.0f}" for name, number in numbers_in(inputs).items()}
    return sizes | named(
        said,
        account=account,
        limit_s=limit_s,
        mem_node_bytes=mem_node_bytes,
        folder=folder_template(work_dir),
        script=script,
        array=array,
    )


def said_by(words: Sequence[str], *, name: str, comment: str, export: str) -> Said:
    """Read the texts of a job; parameters as of `attributes`."""
    tag = parse_tag(comment)
    engine = engine_job(name, comment, words)
    size = size_text(tag.size) if tag else ""
    arguments: dict[str, str] = {}
    if words and engine is None:
        exported = (one for one in export.split(",") if "=" in one)
        arguments = {COMMAND: words[0]} | dict(_arguments((*exported, *words[1:])))
    sample = engine.sample if engine else ""
    return Said(
        arguments=arguments,
        size=size,
        name=name if arguments and name_template(name) != name else "",
        sample=sample,
        workflow=engine.workflow if engine else "",
        attempt=engine.attempt if engine else 1,
        numbers=numbers_of(arguments | {SIZE: size, SAMPLE: sample}),
    )


def size_text(text: str) -> str:
    """Write a number in the largest unit that gives a whole one: 4096M is 4G."""
    number = number_of(text) or 0.0
    units = (unit for unit in "TGM" if number >= _UNITS[unit] and number % _UNITS[unit] == 0)
    unit = next(units, "")
    return f"{number / _UNITS[unit]:.0f}{unit}" if unit else text


def _arguments(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Name each argument: by what is before its equals sign, by its option, or by its place."""
    place = 0
    option = ""
    for word in words:
        name, equals, value = word.partition("=")
        if equals and name:
            yield name, value
            option = ""
        elif word.startswith("-") and _SIGNED.fullmatch(word) is None:
            yield word, "given"
            option = word
        elif option:
            yield option, word
            option = ""
        else:
            place += 1
            yield f"{ARGUMENT}{place}", word


def number_of(text: str) -> float | None:
    """Read a number above zero, with a unit or as a grid; None: it is none.

    >>> number_of("500"), number_of("3.2G"), number_of("4x4x2"), number_of("a500.dat")
    (500.0, 3435973836.8, 32.0, None)
    >>> number_of(".5"), number_of("1e-005"), number_of("-3")
    (0.5, 1e-05, None)
    """
    factors = [_NUMBER.fullmatch(one) for one in text.split("x")[:4]] if len(text) < LONGEST else []
    given = [float(one[1]) * _UNITS[one[2]] for one in factors if one]
    number = prod(given) if given and len(given) == len(factors) else 0.0
    return number if 0 < number < inf else None


def numbers_of(values: Mapping[str, str]) -> dict[str, float]:
    """Give the attributes that may be sizes of the problem, as numbers.

    >>> numbers_of({"--steps": "500", "--np": "64", "time limit": "7200", "--input": "a.dat"})
    {'--steps': 500.0}
    """
    named = ((name, value) for name, value in values.items() if name not in _NO_SIZES)
    # An option that counts processes is a size of the request, not of the problem.
    spelled = ((name, one, re.sub("[-_]", "", name).lower()) for name, one in named)
    given = ((name, number_of(one)) for name, one, option in spelled if option not in _COUNTS)
    return {name: number for name, number in given if number is not None}


def describe(values: Mapping[str, str]) -> str:
    """Name a set of attributes in words.

    >>> describe({"KPAR": "9", "time limit": "7200", "--input": ""})
    'KPAR=9, a time limit of 2:00:00 and no --input'
    """
    words = [_word(name, value) for name, value in values.items()]
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def _word(name: str, value: str) -> str:
    name = name[:LONGEST]
    value = value[:LONGEST]
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
    return f"{name} {value}" if name in _NAMED else f"{name}={value}"
