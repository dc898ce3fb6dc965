"""Job scripts and command lines as sbatch reads them.

The options of sbatch, salloc and srun, as far as they are needed, are from the option tables of
Slurm's ``src/common/slurm_opt.c`` and the getopt strings of the three commands (22.05 to 26.05).
"""

import re
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from functools import lru_cache, wraps
from itertools import islice, takewhile
from pathlib import PurePosixPath
from typing import Final, NamedTuple, ParamSpec, TypeVar

_Given = ParamSpec("_Given")
_Made = TypeVar("_Made")
#: Long names of options that always take a value, by their letter ("" without one).
_NEEDED: Final = (
    ("A", "account"), ("a", "array"), ("b", "begin"), ("C", "constraint"), ("c", "cpus-per-task"),
    ("D", "chdir"), ("d", "dependency"), ("e", "error"), ("B", "extra-node-info"),
    ("F", "nodefile"), ("G", "gpus"), ("i", "input"), ("J", "job-name"), ("L", "licenses"),
    ("M", "clusters"), ("m", "distribution"), ("N", "nodes"), ("n", "ntasks"), ("o", "output"),
    ("p", "partition"), ("q", "qos"), ("S", "core-spec"), ("t", "time"), ("w", "nodelist"),
    ("x", "exclude"),
    *(("", name) for name in (
        "acctg-freq", "batch", "bb", "bbf", "cluster", "cluster-constraint", "comment",
        "consolidate-segments", "container", "container-id", "cores-per-socket", "cpu-freq",
        "cpus-per-gpu", "deadline", "delay-boot", "export", "export-file", "extra", "gid",
        "gpu-bind", "gpu-freq", "gpus-per-node", "gpus-per-socket", "gpus-per-task", "gres",
        "gres-flags", "hint", "kill-on-invalid-dep", "mail-type", "mail-user", "mcs-label", "mem",
        "mem-bind", "mem-per-cpu", "mem-per-gpu", "mincpus", "network", "ntasks-per-core",
        "ntasks-per-gpu", "ntasks-per-node", "ntasks-per-socket", "ntasks-per-tres", "open-mode",
        "power", "prefer", "priority", "profile", "reservation", "segment", "signal",
        "sockets-per-node", "switches", "thread-spec", "threads-per-core", "time-min", "tmp",
        "tres-bind", "tres-per-task", "uid", "wait-all-nodes", "wckey", "wrap",
    )),
)  # fmt: skip
_ATTACHED: Final = (
    ("k", "no-kill"),
    *(("", name) for name in ("exclusive", "get-user-env", "nice", "oom-kill-step", "propagate")),
)
_NO_VALUE: Final = (
    ("H", "hold"), ("h", "help"), ("O", "overcommit"), ("Q", "quiet"), ("s", "oversubscribe"),
    ("V", "version"), ("v", "verbose"),
    *(("", name) for name in (
        "contiguous", "disable-stdout-job-summary", "ignore-pbs", "no-requeue", "parsable",
        "reboot", "requeue", "resv-ports", "spread-job", "spread-segments", "stepmgr",
        "test-only", "usage", "use-min-nodes",
    )),
)  # fmt: skip
_SBATCH_NONE: Final = (("W", "wait"), ("u", "usage"))
_SALLOC_NONE: Final = (("K", "kill-command"), ("", "no-shell"), ("", "bell"), ("", "no-bell"),
                       ("u", "usage"), ("", "x11"))  # fmt: skip
_SALLOC_ATTACHED: Final = (("I", "immediate"), ("K", "kill-command"), ("", "x11"))
_SALLOC_NEEDED: Final = (("W", "wait"),)
_SRUN_NEEDED: Final = (
    ("T", "threads"), ("r", "relative"), ("W", "wait"),
    *(("", name) for name in (
        "accel-bind", "bcast-exclude", "cpu-bind", "epilog", "het-group", "jobid", "mpi",
        "msg-timeout", "multi-prog", "pack-group", "prolog", "slurmd-debug", "task-epilog",
        "task-prolog", "treewidth", "tres-per-node", "tres-per-socket",
    )),
)  # fmt: skip
_SRUN_ATTACHED: Final = (("I", "immediate"), ("K", "kill-on-bad-exit"), ("", "bcast"),
                         ("", "compress"), ("", "x11"), ("", "pty"), ("", "mpi-combine"),
                         ("", "send-libs"))  # fmt: skip
_SRUN_NONE: Final = (
    ("E", "preserve-env"), ("l", "label"), ("u", "unbuffered"), ("X", "disable-status"),
    ("Z", "no-allocate"),
    *(("", name) for name in (
        "debugger-test", "exact", "external", "external-launcher", "interactive",
        "overlap", "quit-on-interrupt", "whole",
    )),
)  # fmt: skip
#: Names that older releases spelled otherwise.
SYNONYMS: Final[Mapping[str, str]] = {"share": "oversubscribe", "workdir": "chdir"}
_MAGIC = "#SBATCH"
_MOST_DIRECTIVES = 2_000  #: and words in them
_HET = re.compile(r"hetjob|packjob", re.IGNORECASE)
_TOKEN = re.compile(r"""\\.?|["'#]|\s+|[^\\"'#\s]+""", re.DOTALL)
_WRAPPED = "# This script was created by sbatch --wrap."
#: Characters without which words are what stands between blanks.
_MARKS = re.compile(r"[\\\"'#]")


def bounded_cache(
    *, entries: int, characters: int
) -> Callable[[Callable[_Given, _Made]], Callable[_Given, _Made]]:
    """Cache a function of texts; of longer ones the last, which one request may need several times.

    entries: most calls that are remembered.
    characters: most characters of all arguments of one of them.
    """

    def decorate(function: Callable[_Given, _Made]) -> Callable[_Given, _Made]:
        cached, latest = lru_cache(maxsize=entries)(function), lru_cache(maxsize=1)(function)

        @wraps(function)
        def call(*texts: _Given.args, **options: _Given.kwargs) -> _Made:
            short = sum(map(len, texts)) <= characters  # type: ignore[arg-type]
            chosen: Callable[_Given, _Made] = cached if short else latest  # type: ignore[assignment]
            return chosen(*texts, **options)

        return call

    return decorate


class Value(Enum):
    """Whether an option takes a value."""

    NONE = "none"
    NEEDED = "needed"
    ATTACHED = "attached"  #: optional, only as ``--name=value``


_Rows = tuple[tuple[str, str], ...]


def _table(needed: _Rows, attached: _Rows, none: _Rows) -> Mapping[str, tuple[str, Value]]:
    """Letter or long name to long name and kind."""
    table: dict[str, tuple[str, Value]] = {}
    for rows, kind in (
        (_NEEDED + needed, Value.NEEDED),
        (_NO_VALUE + none, Value.NONE),
        (_ATTACHED + attached, Value.ATTACHED),
    ):
        for letter, name in rows:
            table[name] = (name, kind)
            if letter:
                table[letter] = (name, kind)
    return table


OPTIONS: Final[Mapping[str, Mapping[str, tuple[str, Value]]]] = {
    "sbatch": _table((), (), _SBATCH_NONE),
    "salloc": _table(_SALLOC_NEEDED, _SALLOC_ATTACHED, _SALLOC_NONE),
    "srun": _table(_SRUN_NEEDED, _SRUN_ATTACHED, _SRUN_NONE),
}


def lookup(program: str, name: str) -> tuple[str, Value] | None:
    """Long name and kind of an option by its letter or by its name, which may be cut short.

    >>> lookup("sbatch", "N")
    ('nodes', <Value.NEEDED: 'needed'>)
    >>> lookup("sbatch", "ntasks-per-n")
    ('ntasks-per-node', <Value.NEEDED: 'needed'>)
    """
    table = OPTIONS[program]
    name = SYNONYMS.get(name, name)
    if name in table or len(name) < 2:
        return table.get(name)
    # As getopt_long(3): an unambiguous start of a long name will do.
    names = _LONG_NAMES[program]
    first = bisect_left(names, name)
    starting = takewhile(lambda candidate: candidate.startswith(name), islice(names, first, None))
    options = {table[candidate] for candidate in starting}
    return options.pop() if len(options) == 1 else None


#: Long names in their order, so that those with one start stand together.
_LONG_NAMES: Final = {
    program: sorted(name for name in table if len(name) > 1) for program, table in OPTIONS.items()
}


#: Option by long name to its value; None for an option without one.
Options = Mapping[str, str | None]

_NONE: Options = {}


class Script(NamedTuple):
    """A job script.

    ``options`` are those of its ``#SBATCH`` lines (of a heterogeneous job's first component),
    ``body`` what it does: without comments, blank lines and directives.
    """

    options: Options
    body: str
    components: tuple[Options, ...] = ()  #: of a heterogeneous job, those behind the first
    wrapped: bool = False  #: made by ``sbatch --wrap``

    @property
    def het(self) -> bool:
        """Whether it is that of a heterogeneous job."""
        return bool(self.components)


class CommandLine(NamedTuple):
    """A command line of sbatch, salloc or srun.

    ``script`` is the job script (of salloc and srun: the command), empty where it came from
    standard input; ``--wrap`` is among the ``options``.
    """

    program: str
    options: Options = _NONE
    script: str = ""
    arguments: tuple[str, ...] = ()
    components: tuple[Options, ...] = ()  #: of a heterogeneous job, those behind the first

    @property
    def het(self) -> bool:
        """Whether it is that of a heterogeneous job."""
        return bool(self.components)


@bounded_cache(entries=256, characters=16_384)
def parse_script(text: str) -> Script:
    r"""Read a job script.

    Directives count up to the first line that is neither comment nor blank; a word may be quoted,
    and a ``#`` outside of quotes begins a comment (``get_argument`` in ``src/sbatch/opt.c``).

    >>> script = parse_script("#!/bin/sh\n#SBATCH -N 4 -J 'big run' # four\nsrun ./solve\n")
    >>> dict(script.options), script.body
    ({'nodes': '4', 'job-name': 'big run'}, 'srun ./solve')
    """
    lines = text.split("\n")
    parts = _components(_directives(lines))
    first, *others = (_read_options("sbatch", deque(words)) for words in parts)
    return Script(
        options=first,
        body="\n".join(_body(lines)),
        components=tuple(others),
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

    Components of a heterogeneous job are parted by ``:``.  Other programs give a line without
    options.

    >>> parse_command_line(["sbatch", "-N4", "--time", "10", "run.sh", "in.dat"])
    CommandLine(program='sbatch', options={'nodes': '4', 'time': '10'}, script='run.sh', \
arguments=('in.dat',), components=())
    """
    if not argv:
        return CommandLine("")
    program = PurePosixPath(argv[0]).name
    if program not in OPTIONS:
        return CommandLine(program, {}, argv[0], tuple(argv[1:]))
    left = deque(argv[1:])
    options = _read_options(program, left)
    components: list[Options] = []
    while left and left[0] == ":":
        left.popleft()
        components.append(_read_options(program, left))
    script = left.popleft() if left else ""
    return CommandLine(program, options, script, tuple(left), tuple(components))


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


def checked_options(text: str) -> tuple[Options, bool]:
    r"""Options of a script's ``#SBATCH`` lines, and whether they are all that stands there.

    They are not where a word is no option, or a quote has no end: sbatch refuses both.

    >>> checked_options("#!/bin/sh\n#SBATCH -N 4 four\n")
    ({'nodes': '4'}, False)
    """
    directives = list(islice(_directives(text.split("\n")), _MOST_DIRECTIVES))
    words = deque(next(_components(directives)))
    options = _read_options("sbatch", words)
    return options, not words and all(map(_quotes_end, directives))


def _quotes_end(directive: str) -> bool:
    quote = ""
    for part in (match[0] for match in _TOKEN.finditer(directive)):
        if part == quote:
            quote = ""
        elif not quote and part == "#":
            return True
        elif not quote and part in "\"'":
            quote = part
    return not quote


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
            quote = part
            word = _append(word, "")
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
