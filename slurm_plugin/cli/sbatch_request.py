"""The job request that sbatch would make of a command line, its environment and a script.

Options from the environment (sbatch(1), INPUT ENVIRONMENT VARIABLES) go before the script's
``#SBATCH`` lines and after the command line.
"""

import os
import re
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from sacct_ingest.errors import ScriptError, system_errors
from sacct_ingest.scripts.job_script import (
    Options,
    Value,
    checked_options,
    lookup,
    parse_command_line,
)
from slurm_plugin.cli.input_files import inputs_of, is_off
from slurm_plugin.slurm.job_request import (
    JobFields,
    Submitter,
    check_times,
    epoch_words,
    job_fields,
    user_name,
)

_MAX_SCRIPT_BYTES = 4 * 2**20  #: slurm.conf(5), max_script_size
_BLANKS = b" \t\n\v\f\r"  #: of isspace(3)
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"  #: Windows' editors begin UTF-8 with it

#: The script that sbatch makes of --wrap (src/sbatch/sbatch.c).
_WRAPPED = "#!/bin/sh\n# This script was created by sbatch --wrap.\n\n{}\n"

#: Variables with another name than their option's; the others are ``SBATCH_`` and the option.
_NAMES = {
    "array-inx": "array",
    "mem-per-node": "mem",
    "req-switch": "switches",
    "timelimit": "time",
    "cpu-freq-req": "cpu-freq",
}
_OPTIONS = (
    "account", "array-inx", "constraint", "cpu-freq-req", "cpus-per-gpu", "exclusive", "gpus",
    "gpus-per-node", "gpus-per-socket", "gpus-per-task", "gres", "job-name", "mem-per-cpu",
    "mem-per-gpu", "mem-per-node", "no-requeue", "overcommit", "partition", "qos", "req-switch",
    "requeue", "reservation", "signal", "spread-job", "threads-per-core", "timelimit",
    "use-min-nodes", "wckey", "clusters", "export", "network",
)  # fmt: skip
#: Options of sbatch whose values only Slurm can judge.
_SLURMS = frozenset({
    *("account", "array", "clusters", "cluster-constraint", "constraint", "dependency"),
    *("exclude", "gpus"),
    *("gpus-per-node", "gpus-per-socket", "gpus-per-task", "gres", "licenses", "mem"),
    *("mem-per-cpu", "mem-per-gpu", "nodelist", "partition", "qos", "reservation", "segment"),
    "switches",
})  # fmt: skip
#: Values that every release takes, of options of which it takes few; of others Slurm is asked.
_USUAL = {
    name: re.compile(values, re.IGNORECASE)
    for name, values in {
        "distribution": "(block|cyclic|arbitrary|plane=[0-9]+)(:(block|cyclic))?",
        "exclusive": "(user|mcs)?",
        "hint": "compute_bound|memory_bound|(no)?multithread",
        "kill-on-invalid-dep": "yes|no",
        "mail-type": "(,?(NONE|BEGIN|END|FAIL|REQUEUE|ALL|TIME_LIMIT(_50|_80|_90)?))*",
        "nice": "[0-9]*",
        "open-mode": "append|truncate",
        "signal": "([RB]+:)?(SIG)?(HUP|INT|TERM|KILL|USR1|USR2|[0-9]+)(@[0-9]{1,4})?",
    }.items()
}
_LONGEST = 1024  #: bytes of a text that slurmctld takes (``_valid_job_desc_strings``)
_TOO_LARGE = re.compile("[0-9]{10,}")  #: numbers that some releases cut short and others refuse
#: Files that say how many tasks a job runs with, and what their lines look like.
_INPUTS = {
    "system/decomposeParDict": re.compile(r"^[ \t]*(numberOfSubdomains[ \t]+\d+)", re.MULTILINE),
    "INCAR": re.compile(r"^[ \t]*((?:KPAR|NPAR|NCORE)[ \t]*=[ \t]*\d+)", re.MULTILINE),
}
_MAX_INPUT_BYTES = 1 << 16
#: Of two for one option the latter holds.
_VARIABLES = {"SLURM_CLUSTERS": "clusters"}
_VARIABLES |= {f"SBATCH_{name.upper().replace('-', '_')}": name for name in _OPTIONS}


def request(words: Sequence[str], *, user: str, look: bool = True) -> JobFields:
    """Fields of the job request of a command line of sbatch, given without its first word.

    user: whose job it is; empty: that of the process.
    look: whether the sizes of its input files may be looked at.
    Raises ScriptError: the script cannot be read, or Slurm would not take the job.
    """
    command = parse_command_line(["sbatch", *words])
    wrapped = command.options.get("wrap")
    if wrapped is not None and command.script:
        raise ScriptError("Script arguments not permitted with --wrap option, says sbatch")
    script = _read(command.script) if wrapped is None else _WRAPPED.format(wrapped)
    mine = user_name()
    now_s = time.time()
    own = user in ("", mine)
    submitter = Submitter(
        user or mine,
        os.getuid() if own else None,
        str(Path.cwd()),
        options_of(os.environ) if own else {},
    )
    job = job_fields(command, script, submitter, now_s=now_s)
    work_dir = job["work_dir"]
    job["inputs"], job["inputs_changed_s"] = "", None
    if look and own and not is_off(os.environ, job.get("comment", "")):
        options = {**checked_options(script)[0], **command.options}
        job["inputs"], job["inputs_changed_s"] = inputs_of(
            command.arguments, script, work_dir=work_dir, standard_input=options.get("input") or ""
        )
    # Lines of input files in the job's folder that say how many tasks it runs with.
    found: list[str] = []
    for name, pattern in _INPUTS.items():
        with suppress(OSError, ValueError):
            path = Path(work_dir, name)
            if path.is_file() and path.stat().st_size <= _MAX_INPUT_BYTES:
                found += pattern.findall(path.read_text(errors="replace"))
    job["input_text"] = "\n".join(found)
    check_times(job, now_s=now_s)
    if job.get("deadline"):
        job["deadline"] = epoch_words(job["deadline"], now_s=now_s)
    return job


def needs_slurm(job: JobFields, words: Sequence[str], largest: int | None) -> bool:
    """Whether Slurm alone can decide if it accepts this job of the process's own user.

    largest: most nodes that nimod says such a job can get; None: unknown.
    """
    if job["user_name"] != user_name():
        return False
    if not fits(job, largest):
        return True
    typed = parse_command_line(["sbatch", *words]).options
    scripts, every_word_read = checked_options(job["script"])
    options = {**scripts, **options_of(os.environ), **typed}
    return not every_word_read or any(map(_is_for_slurm, options, options.values()))


def _is_for_slurm(name: str, value: str | None) -> bool:
    """Whether only Slurm can judge this option: it, its value, or how long that is."""
    option = lookup("sbatch", name)
    if option is None or name in _SLURMS:
        return True
    if value is None:
        return option[1] is Value.NEEDED
    if len(value) > _LONGEST or _TOO_LARGE.fullmatch(value):
        return True
    usual = _USUAL.get(name)
    return usual is not None and not usual.fullmatch(value)


def clusters_of(job: JobFields, words: Sequence[str]) -> tuple[str, ...]:
    """Name the clusters that sbatch would send this job to; empty: the one of this machine.

    Several: the one that starts it first.
    """
    typed = parse_command_line(["sbatch", *words]).options
    of_user = options_of(os.environ) if job["user_name"] == user_name() else {}
    options = {**checked_options(job["script"])[0], **of_user, **typed}
    return tuple(filter(None, (options.get("clusters") or "").split(",")))


def fits(job: JobFields, largest: int | None) -> bool:
    """Whether nimod sees enough nodes for a job."""
    return largest is not None and job.get("min_nodes", 1) <= largest


def options_of(environ: Mapping[str, str]) -> Options:
    """Options that these variables set.

    >>> options_of({"SBATCH_TIMELIMIT": "10", "SBATCH_EXCLUSIVE": "", "HOME": "/"})
    {'exclusive': '', 'time': '10'}
    """
    return {
        _NAMES.get(name, name): environ[variable]
        for variable, name in _VARIABLES.items()
        if variable in environ
    }


def _read(path: str) -> str:
    if not path and sys.stdin.isatty():
        raise ScriptError("no job script is given; 'nimo-advise --help' shows examples")
    with system_errors(ScriptError, path):
        data = sys.stdin.buffer.read() if path in ("", "-") else Path(path).read_bytes()
    if refusal := refusal_of(data, path):
        raise ScriptError(refusal)
    return data.decode(errors="replace")


def refusal_of(data: bytes, path: str) -> str:
    """Say what sbatch says of a script that it refuses, and how to mend it; empty: it takes it.

    These are the checks of ``get_script_buffer`` in ``src/sbatch/sbatch.c``, in their order
    (22.05 to 26.05), and slurmctld's of its length.  The words are Slurm's.

    >>> refusal_of(b"", "job.sh")
    'job.sh: sbatch refuses this script: Batch script is empty!  To mend it, write commands into it'
    """
    name = path if path not in ("", "-") else "standard input"
    if not data:
        words = "Batch script is empty!"
        mend = "write commands into it"
    elif not data.partition(b"\0")[0].strip(_BLANKS):
        words = "Batch script contains only whitespace!"
        mend = "write commands into it"
    elif not data.startswith(b"#!"):
        words = "This does not look like a batch script."
        mend = "have its first line say what runs it: #!/bin/bash"
        if data.startswith(_BYTE_ORDER_MARK):
            mend = (
                f"take off its byte order mark: sed -i '1s/^\\xEF\\xBB\\xBF//' {shlex.quote(name)}"
            )
    elif b"\0" in data:
        words = "The Slurm controller does not allow scripts that contain a NULL character"
        mend = "is it a program? srun in a script runs it"
    elif b"\r\n" in data:
        words = "Batch script contains DOS line breaks"
        mend = f"turn them into Unix line breaks: sed -i 's/\\r$//' {shlex.quote(name)}"
    elif len(data) > _MAX_SCRIPT_BYTES:
        words = "Pathname of a file, directory or other parameter too long"
        mend = "move what is long into files that it reads (max_script_size in slurm.conf)"
    else:
        return ""
    return f"{name}: sbatch refuses this script: {words}  To mend it, {mend}"
