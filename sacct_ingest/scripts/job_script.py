"""Job scripts and command lines as sbatch reads them."""

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import PurePosixPath
from typing import NamedTuple

from sacct_ingest.scripts.sbatch_options import OPTIONS, Value, lookup

#: Option by long name to its value; None for an option without one.
Options = Mapping[str, str | None]

_NONE: Options = {}
_MAGIC = "#SBATCH"
_MOST_DIRECTIVES = 2_000  #: and words in them
_HET = re.compile(r"hetjob|packjob", re.IGNORECASE)
_TOKEN = re.compile(r"""\\.?|["'#]|\s+|[^\\"'#\s]+""", re.DOTALL)
_WRAPPED = "# This script was created by sbatch --wrap."


class Script(NamedTuple):
    """A job script.

    ``options`` are those of its ``#SBATCH`` lines (of a heterogeneous job's first component),
    ``body`` what it does: without comments, blank lines and directives.
    """

    options: Options
    body: str
    het: bool = False
    wrapped: bool = False  #: made by ``sbatch --wrap``


class CommandLine(NamedTuple):
    """A command line of sbatch, salloc or srun.

    ``script`` is the job script (of salloc and srun: the command), empty where it came from
    standard input; ``--wrap`` is among the ``options``.
    """

    program: str
    options: Options = _NONE
    script: str = ""
    arguments: tuple[str, ...] = ()
    het: bool = False


def parse_script(text: str) -> Script:
    r"""Read a job script.

    Directives count up to the first line that is neither comment nor blank; a word may be quoted,
    and a ``#`` outside of quotes begins a comment (``get_argument`` in ``src/sbatch/opt.c``).

    >>> script = parse_script("#!/bin/sh\n#SBATCH -N 4 -J 'big run' # four\nsrun ./solve\n")
    >>> dict(script.options), script.body
    ({'nodes': '4', 'job-name': 'big run'}, 'srun ./solve')
    """
    lines = text.split("\n")
    components = list(_components(_directives(lines)))
    return Script(
        options=_read_options("sbatch", deque(components[0])),
        body="\n".join(_body(lines)),
        het=len(components) > 1,
        wrapped=any(line.startswith(_WRAPPED) for line in lines[:3]),
    )


def script_options(text: str) -> Options:
    r"""Options of a job script's ``#SBATCH`` lines, without a look at its body.

    >>> dict(script_options("#!/bin/sh\n#SBATCH -N 2-8:2\nsrun ./solve\n"))
    {'nodes': '2-8:2'}
    """
    return _read_options("sbatch", deque(next(_components(_directives(text.split("\n"))))))


def parse_command_line(argv: Sequence[str]) -> CommandLine:
    """Read a command line whose first word is sbatch, salloc or srun, with or without its path.

    Of a heterogeneous job (components parted by ``:``) the options are those of the first.  Other
    programs give a line without options.

    >>> parse_command_line(["sbatch", "-N4", "--time", "10", "run.sh", "in.dat"])
    CommandLine(program='sbatch', options={'nodes': '4', 'time': '10'}, script='run.sh', \
arguments=('in.dat',), het=False)
    """
    if not argv:
        return CommandLine("")
    program = PurePosixPath(argv[0]).name
    if program not in OPTIONS:
        return CommandLine(program, {}, argv[0], tuple(argv[1:]))
    left = deque(argv[1:])
    options, het = _read_options(program, left), False
    while left and left[0] == ":":
        het = True
        left.popleft()
        _read_options(program, left)
    script = left.popleft() if left else ""
    return CommandLine(program, options, script, tuple(left), het)


def split_submit_line(line: str) -> list[str]:
    """Split sacct's SubmitLine, which is the words joined by spaces, the quotes lost."""
    words = line.split()
    for i, word in enumerate(words):
        # What follows is one word: sbatch takes no script beside --wrap.
        if word == "--wrap":
            return [*words[: i + 1], " ".join(words[i + 1 :])]
        if word.startswith("--wrap="):
            return [*words[:i], " ".join(words[i:])]
    return words


def _read_options(program: str, left: deque[str]) -> dict[str, str | None]:
    """Options at the start of ``left`` as getopt_long(3) reads them; they are taken off it."""
    options: dict[str, str | None] = {}
    while left and left[0].startswith("-") and left[0] != "-":
        word = left.popleft()
        if word == "--":
            break
        read = _long_option if word.startswith("--") else _letters
        options.update(read(program, word, left))
    return options


def _long_option(program: str, word: str, left: deque[str]) -> Iterator[tuple[str, str | None]]:
    given, equals, value = word[2:].partition("=")
    option = lookup(program, given)
    if option is None:
        yield given, value if equals else None
        return
    name, kind = option
    if equals:
        yield name, value
    elif kind is Value.NEEDED and left:
        yield name, left.popleft()
    else:
        yield name, None


def _letters(program: str, word: str, left: deque[str]) -> Iterator[tuple[str, str | None]]:
    """Read ``-N4``, ``-N 4``, ``-vN4``."""
    last = len(word) - 1
    for i, letter in enumerate(word[1:], 1):
        name, kind = lookup(program, letter) or (letter, Value.NONE)
        if kind is not Value.NONE and i < last:
            yield name, word[i + 1 :]
            return
        yield name, left.popleft() if kind is Value.NEEDED and left else None


def _directives(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        if line.startswith(_MAGIC):
            yield line[len(_MAGIC) :]
        elif line.strip() and not line.lstrip().startswith("#"):
            return


def _components(directives: Iterable[str]) -> Iterator[list[str]]:
    """Words of the directives, one list for each component of a heterogeneous job.

    No job has thousands of them: what comes after so many is not read.
    """
    words: list[str] = []
    for directive in islice(directives, _MOST_DIRECTIVES):
        if _HET.match(directive.strip()):
            yield words
            words = []
        else:
            words.extend(_words(directive) if _MARKS.search(directive) else directive.split())
        if len(words) > _MOST_DIRECTIVES:
            break
    yield words[:_MOST_DIRECTIVES]


#: Characters without which words are what stands between blanks.
_MARKS = re.compile(r"[\\\"'#]")


def _words(directive: str) -> Iterator[str]:
    word: list[str] | None = None  # None: no word has begun
    quote = ""
    for part in (match[0] for match in _TOKEN.finditer(directive)):
        if part == quote:
            quote = ""
        elif part[0] == "\\":
            word = _append(word, part[1:])
        elif quote:
            word = _append(word, part)
        elif part in "\"'":
            quote, word = part, _append(word, "")
        elif part == "#":
            break
        elif not part.isspace():
            word = _append(word, part)
        elif word is not None:
            yield "".join(word)
            word = None
    if word is not None:
        yield "".join(word)


def _append(word: list[str] | None, text: str) -> list[str]:
    word = word if word is not None else []
    word.append(text)
    return word


def _body(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        stripped = line.strip()
        if stripped and not stripped.startswith("#"):
            yield stripped
