"""Kinds of jobs whose length is no property of their work.

A pilot takes whatever work there is until it is stopped: a worker of Dask, Parsl or HyperQueue.  A
session lasts as long as its user stays: JupyterHub, a portal's desktop, ``salloc``.  Which jobs run
until their limit by design their endings show (`predictor.tables.kinds`).
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from sacct_ingest.runs.submission import JobKind
from sacct_ingest.scripts.engines import EngineJob

#: What engines submit that is no work of its own.
_OF_ENGINES: Final = {
    "dask": JobKind.PILOT,
    "parsl": JobKind.PILOT,
    "batchspawner": JobKind.SESSION,
    "ondemand": JobKind.SESSION,
}
#: Programs that wait for work, and those that wait for a user, as words of a command.
_PILOTS: Final = re.compile(
    r"\b(?:dask[-_ ](?:worker|scheduler|cuda-worker)|process_worker_pool(?:\.py)?|ipengine"
    r"|ipcontroller|(?:hq|hyperqueue) worker|work_queue_worker|vine_worker|ray start"
    r"|radical-pilot-agent|condor_master|glidein\w*|celery \S*worker|gitlab-runner)\b"
)
_SERVERS: Final = re.compile(
    r"\b(?:jupyterhub-singleuser|batchspawner-singleuser|jupyter[-_ ]?(?:lab|notebook|server)"
    r"|code[-_]server|code tunnel|rserver|rstudio(?:-server)?|vncserver|Xvnc|sleep inf(?:inity)?)\b"
)
#: Names that users give to sessions.
_SESSION_NAMES: Final = re.compile(
    r"(?i:jupyter(?:hub|lab|[-_]?notebook)?|vs-?code|code[-_]server|rstudio|vnc(?:server)?"
    r"|interactive|(?:ba|z|tc|c|k|fi)?sh)"
)
#: Shells, which are a session where a command is nothing else.
_SHELLS: Final = frozenset({"bash", "sh", "zsh", "tcsh", "csh", "ksh", "fish"})


def kind_of(
    name: str,
    words: Sequence[str],
    engine: EngineJob | None,
    program: str,
    options: Mapping[str, str | None],
) -> JobKind:
    """Recognise the kind of a job by its engine, program, options, command and name.

    words: command and its arguments, as `sacct_ingest.scripts.signature` spells them.
    program: ``sbatch``, ``salloc`` or ``srun``; empty: unknown.

    >>> kind_of("x", (), None, "salloc", {}), kind_of("x", ("run.sh",), None, "sbatch", {})
    (<JobKind.SESSION: 'session'>, <JobKind.WORK: 'work'>)
    """
    if engine is not None:
        return _OF_ENGINES.get(engine.engine, JobKind.WORK)
    command = " ".join(words)
    if _PILOTS.search(command) or name.startswith("dask-worker"):
        return JobKind.PILOT
    bare = not words or (len(words) == 1 and words[0] in _SHELLS)
    shell = (program == "salloc" and bare) or (program == "srun" and "pty" in options)
    if shell or _SERVERS.search(command) or _SESSION_NAMES.fullmatch(name):
        return JobKind.SESSION
    return JobKind.WORK
