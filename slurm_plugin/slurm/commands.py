"""Running one Slurm command and getting its text, or one clear error; submitting a job."""

import os
import pwd
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any

from sacct_ingest.errors import SlurmError

#: Times as seconds since the epoch, and array indexes in full.
_FORMATS = {"SLURM_TIME_FORMAT": "%s", "SLURM_BITSTR_LEN": "0"}
#: Variables that stand for options of squeue (the same in 22.05 to 26.05).
_SQUEUE_OPTIONS = {"-O": "SQUEUE_FORMAT2", "-o": "SQUEUE_FORMAT"}
#: Variables that a command for another user keeps.
_FOR_USERS = ("PATH", "LD_LIBRARY_PATH", "SLURM_CONF", *_FORMATS)
_PIECE = 2**18  #: bytes that are read at a time
#: What Slurm says when it may work a moment later; all else is about the job.
_PASSING = ("unable to contact", "timed out", "refused", "temporarily", "unreachable", "no answer")
#: What sbatch writes before the reason.
_BEFORE_REASON = re.compile(r"(?:sbatch: )+(?:error: )?(?:Batch job submission failed: )?")


class SubmissionRefused(SlurmError):  # noqa: N818 - what sbatch did
    """Slurm does not take such a job."""


def run(argv: Sequence[str], *, timeout_s: float, uid: int | None = None) -> str:
    """Output of a Slurm command.

    squeue's format goes to its environment: all users can read a command line while it runs, and
    could write the word that separates fields into their job's name.

    uid: user with whose rights it runs; None: those of this process.
    Raises SlurmError: the command is missing, failed, or took longer than ``timeout_s``; or there
        is no such user.
    """
    argv, formats = _without_formats(argv)
    # Without a user's own defaults for squeue and sinfo, such as ``SQUEUE_STATES``.
    own = {k: v for k, v in os.environ.items() if not k.startswith(("SQUEUE_", "SINFO_"))}
    env = {**own, **_FORMATS, **formats}
    if uid is None or uid == os.geteuid():
        return _output(argv, "", env, timeout_s)
    try:
        user = pwd.getpwuid(uid)
        groups = os.getgrouplist(user.pw_name, user.pw_gid)
    except (KeyError, OverflowError) as error:
        raise SlurmError(f"{argv[0]}: no user has the uid {uid}") from error
    # That user can read the environment of the process.
    env = {name: env[name] for name in _FOR_USERS if name in env}
    rights = {"user": uid, "group": user.pw_gid, "extra_groups": groups}
    return _output(argv, "", env, timeout_s, **rights)


def records(argv: Sequence[str], end: str, *, timeout_s: float) -> Iterator[str]:
    """Output of a Slurm command up to each ``end``, piece by piece: never all of it in memory.

    One that users fill with long texts could take more of that than all else together.

    Raises SlurmError: as :func:`run`; some pieces may have been given before.
    """
    argv, formats = _without_formats(argv)
    own = {k: v for k, v in os.environ.items() if not k.startswith(("SQUEUE_", "SINFO_"))}
    ended = threading.Event()
    try:
        process = subprocess.Popen(
            _in_usual_class(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**own, **_FORMATS, **formats},
        )
    except OSError as error:
        raise _not_started(argv, error) from error

    def stop() -> None:
        ended.set()
        process.kill()

    timer = threading.Timer(timeout_s, stop)
    timer.start()
    with process:
        try:
            yield from _pieces(process.stdout, end.encode())
            errors = process.stderr.read() if process.stderr else b""
            status = process.wait()
        finally:
            timer.cancel()
            process.kill()
    if ended.is_set():
        raise SlurmError(f"{argv[0]}: no answer within {timeout_s:g} s")
    if status != 0:
        raise _failed(argv, status, errors)


def _pieces(output: IO[bytes] | None, end: bytes) -> Iterator[str]:
    left = b""
    while output is not None and (data := output.read(_PIECE)):
        *whole, left = (left + data).split(end)
        for piece in whole:
            yield piece.decode(errors="replace")
    if left:
        yield left.decode(errors="replace")


def may_run_as(uid: int | None) -> bool:
    """Whether a command can run with the rights of a user: root has those of all."""
    return uid is not None and os.geteuid() in (0, uid)


def submit(argv: Sequence[str], script: str = "", *, timeout_s: float) -> str:
    """Id of the job that an sbatch with ``--parsable`` made; the script goes to its stdin.

    Raises SubmissionRefused: Slurm does not take such a job; SlurmError: it cannot be asked at the
        moment; the job may be there all the same.
    """
    try:
        # The job inherits the environment, so it stays as it is.
        output = _output(argv, script, dict(os.environ), timeout_s)
    except SlurmError as error:
        if may_pass(error):
            raise
        raise SubmissionRefused(_BEFORE_REASON.sub("", str(error)).strip()) from error
    *_, last = output.split() or [""]
    job_id = last.partition(";")[0]
    if not job_id.isdecimal():
        raise SlurmError(f"{argv[0]}: printed no job id but {output.strip()!r}")
    return job_id


def may_pass(error: SlurmError) -> bool:
    """Whether Slurm may work a moment later; all else that it says is about the job."""
    return any(sign in str(error).lower() for sign in _PASSING)


def pauses() -> Iterator[float]:
    """Give seconds between looks at a job, from half a second to a minute, to spare slurmctld."""
    pause_s = 0.5
    while True:
        yield pause_s
        pause_s = min(1.4 * pause_s, 60.0)


def _output(
    argv: Sequence[str], given: str, env: Mapping[str, str], timeout_s: float, **rights: Any
) -> str:
    try:
        done: subprocess.CompletedProcess[bytes] = subprocess.run(
            _in_usual_class(argv),
            capture_output=True,
            timeout=timeout_s,
            env=env,
            check=False,
            input=given.encode(),
            **rights,
        )
    except subprocess.TimeoutExpired as error:
        raise SlurmError(f"{argv[0]}: no answer within {timeout_s:g} s") from error
    except OSError as error:
        raise _not_started(argv, error) from error
    if done.returncode != 0:
        raise _failed(argv, done.returncode, done.stderr)
    return done.stdout.decode(errors="replace")


def _not_started(argv: Sequence[str], error: OSError) -> SlurmError:
    if isinstance(error, FileNotFoundError):
        return SlurmError(f"{argv[0]}: not found on PATH; are Slurm's commands there?")
    return SlurmError(f"{argv[0]}: {error.strerror or error}")


def _failed(argv: Sequence[str], status: int, errors: bytes) -> SlurmError:
    lines = errors.decode(errors="replace").strip().splitlines()
    # What a hook says to the user comes before the error.
    wrong = [line for line in lines if "error" in line] or lines
    return SlurmError(f"{argv[0]}: {wrong[0] if wrong else f'exit status {status}'}")


def _in_usual_class(argv: Sequence[str]) -> list[str]:
    """Command that leaves a real-time class, which nimod may have: it is for answers alone."""
    if os.sched_getscheduler(0) not in (os.SCHED_FIFO, os.SCHED_RR) or not shutil.which(argv[0]):
        return list(argv)
    return ["chrt", "--other", "0", *argv]


def _without_formats(argv: Sequence[str]) -> tuple[Sequence[str], dict[str, str]]:
    """Command line without squeue's format, and the variable that gives it."""
    for at, word in enumerate(argv[:-1]):
        if argv[0] == "squeue" and word in _SQUEUE_OPTIONS:
            return [*argv[:at], *argv[at + 2 :]], {_SQUEUE_OPTIONS[word]: argv[at + 1]}
    return argv, {}
