"""The options of sbatch, salloc and srun, as far as they are needed to skip or to read them.

From the option tables of Slurm's ``src/common/slurm_opt.c`` and the getopt strings of the three
commands (22.05 to 26.05).
"""

from bisect import bisect_left
from collections.abc import Mapping
from enum import Enum
from itertools import islice, takewhile
from typing import Final


class Value(Enum):
    """Whether an option takes a value."""

    NONE = "none"
    NEEDED = "needed"
    ATTACHED = "attached"  #: optional, only as ``--name=value``


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

_NONE: Final = (
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

_Rows = tuple[tuple[str, str], ...]


def _table(needed: _Rows, attached: _Rows, none: _Rows) -> Mapping[str, tuple[str, Value]]:
    """Letter or long name to long name and kind."""
    table: dict[str, tuple[str, Value]] = {}
    for rows, kind in (
        (_NEEDED + needed, Value.NEEDED),
        (_NONE + none, Value.NONE),
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

#: Names that older releases spelled otherwise.
SYNONYMS: Final[Mapping[str, str]] = {"share": "oversubscribe", "workdir": "chdir"}


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
