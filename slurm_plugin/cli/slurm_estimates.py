"""``nimo-advise --test-only``: Slurm's own start estimates, for a few node counts, each asked once.

The job is not submitted, but slurmctld goes through its submission: it takes a job id, and calls
job_submit.  :data:`ESTIMATE_COMMENT` in the comment makes nimod decide and record nothing.
"""

import contextlib
import os
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from sacct_ingest.errors import JobRefused, SlurmError
from sacct_ingest.scripts.job_script import parse_command_line
from slurm_plugin.protocol.advice_messages import ESTIMATE_COMMENT, Advice, Row
from slurm_plugin.slurm import commands
from slurm_plugin.slurm.job_request import JobFields

if TYPE_CHECKING:
    from slurm_plugin.config.settings import Advise
    from slurm_plugin.config.start_estimates import StartEstimates

#: What sbatch says where slurmctld did not look at the job.
_NO_WORD = re.compile(
    "Could not establish a config|Unable to contact|Connection|timed out|[Aa]uthentication|[Mm]unge"
    "|Zero Bytes|temporarily unable|Communication|missing socket"
)
#: What it says where no node fits, and also where those that do are drained.
_NO_NODES = "Requested node configuration is not available"
#: Some of such jobs sbatch refuses; others, as those of too many nodes, it takes for good.
_NEVER = "No nodes here can run this job, and where sbatch takes it, it never starts"
_NAMED = 5  #: nodes that are named, at most
_SINFO_S = 2.0  #: that sinfo is waited for
#: When Slurm would start the job of ``--test-only``.
START = re.compile(r"Job \d+ to start at (\d+)\b")
_STDIN = ("", "-")


class EstimateRequest(NamedTuple):
    """A command line of sbatch, apart."""

    options: tuple[str, ...]  #: before the script
    script: tuple[str, ...] = ()  #: and its arguments; empty: from standard input, or ``--wrap``
    text: str = ""  #: what standard input is to hold

    def argv(self, nodes: int | None = None) -> list[str]:
        """Command that asks when this would start, on ``nodes`` if given; what comes last holds."""
        count = () if nodes is None else (f"--nodes={nodes}",)
        ours = ("--test-only", *count, f"--comment={ESTIMATE_COMMENT}")
        return ["sbatch", *self.options, *ours, *self.script]

    def key(self, nodes: int) -> str:
        """Name of the question, for the cache."""
        import hashlib  # noqa: PLC0415 - not for a check

        words = "\0".join([*self.argv(nodes), self.text])
        return hashlib.sha256(words.encode(errors="surrogateescape")).hexdigest()[:32]


Run = Callable[[Sequence[str], str], str]


def run(argv: Sequence[str], text: str, *, environ: Mapping[str, str], timeout_s: float) -> str:
    """Run sbatch and give what it says on standard error.

    Raises JobRefused: it refused the job; SlurmError: it is missing, reached no slurmctld, or took
        longer than ``timeout_s``.
    """
    try:
        done = subprocess.run(
            argv,
            input=text,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            env={**environ, "SLURM_TIME_FORMAT": "%s"},
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise SlurmError(f"sbatch --test-only: no answer within {timeout_s:g} s") from error
    except OSError as error:
        raise SlurmError(f"sbatch: {error.strerror or error}") from error
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        words = (line.removeprefix("sbatch: ").removeprefix("error: ") for line in lines)
        message = "; ".join(words)
        if _NO_WORD.search(message):
            raise SlurmError(message)
        raise JobRefused(message, done.returncode)
    return done.stderr


def starts(
    submission: EstimateRequest,
    counts: Sequence[int],
    run: Run,
    cache: "StartEstimateCache",
    *,
    now_s: float,
) -> dict[int, float]:
    """Start times by node count, seconds since the epoch.

    A count that Slurm refuses is left out; when it does not answer, no more are asked.

    Raises SlurmError: there is no answer for any of them; the message is Slurm's of the last.
    """
    estimates: dict[int, float] = {}
    trouble = "sbatch --test-only printed no start time"
    for nodes in counts:
        key = submission.key(nodes)
        start_s = cache.get(key, now_s=now_s)
        try:
            if start_s is None:
                start_s = _ask(submission, nodes, run)
                cache.put(key, start_s, now_s=now_s)
        except SlurmError as error:
            trouble = str(error)
            if "no answer" in trouble:
                break
            continue
        estimates[nodes] = start_s
    if counts and not estimates:
        raise SlurmError(trouble)
    return estimates


def _ask(submission: EstimateRequest, nodes: int, run: Run) -> float:
    match = START.search(run(submission.argv(nodes), submission.text))
    if match is None:
        raise SlurmError("sbatch --test-only printed no start time")
    return float(match[1])


@dataclass(frozen=True, slots=True)
class StartEstimateCache:
    """Answers of the last minute, in a file of the user's own; trouble with it is no trouble."""

    path: Path
    _: KW_ONLY
    keep_s: float  #: for how long an answer is good

    def get(self, key: str, *, now_s: float) -> float | None:
        """Look up an answer that is good still."""
        return self._fresh(now_s).get(key, (0.0, None))[1]

    def put(self, key: str, start_s: float, *, now_s: float) -> None:
        """Keep an answer, and drop those that are too old."""
        entries = self._fresh(now_s) | {key: (now_s, start_s)}
        import json  # noqa: PLC0415 - not for a check

        from sacct_ingest.files import atomic_file  # noqa: PLC0415

        with contextlib.suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            atomic_file.write(self.path, json.dumps(entries).encode(), mode=0o600)

    def _fresh(self, now_s: float) -> dict[str, tuple[float, float | None]]:
        import json  # noqa: PLC0415 - not for a check

        try:
            entries = json.loads(self.path.read_text())
            return {
                str(key): (float(made_s), float(start_s))
                for key, (made_s, start_s) in entries.items()
                if 0 <= now_s - made_s < self.keep_s
            }
        except (OSError, ValueError, TypeError, AttributeError):
            return {}


def submission_of(words: Sequence[str], script_text: str) -> EstimateRequest:
    """Command line of sbatch, without its first word, apart.

    >>> submission_of(["--test-only", "-N", "4", "job.sh", "x"], "")
    EstimateRequest(options=('-N', '4'), script=('job.sh', 'x'), text='')
    """
    command = parse_command_line(["sbatch", *words])
    script = (command.script, *command.arguments) if command.script else ()
    options = words[: len(words) - len(script)]
    if "wrap" in command.options or command.script not in _STDIN:
        text = ""
    else:
        text = script_text
        script = ()
    passed = tuple(word for word in options if word not in ("--test-only", "--"))
    return EstimateRequest(options=passed, script=script, text=text)


def counts_of(rows: Sequence[Row], most: int) -> list[int]:
    """Node counts worth asking about: the recommended one, then those that end first."""

    def rank(row: Row) -> tuple[bool, float]:
        return not row.recommended, (row.wait_s or 0.0) + row.time_s

    return [row.nodes for row in sorted(rows, key=rank)[:most]]


def check(words: Sequence[str], script_text: str, how: "Advise | StartEstimates") -> None:
    """Ask Slurm whether it would accept the job. Raises JobRefused: Slurm would refuse it."""
    submission = submission_of(words, script_text)
    try:
        run(submission.argv(), submission.text, environ=os.environ, timeout_s=how.timeout_s)
    except JobRefused as error:
        opening = "Slurm would refuse this job"
        if _NO_NODES in str(error):
            opening = _without_nodes(submission) or _NEVER
        raise JobRefused(f"{opening}: {error}", error.exit_status) from error
    except SlurmError:
        return  # Slurm is not here, or has no time: nothing speaks against the job


def _without_nodes(submission: EstimateRequest) -> str:
    """Say that nodes are out of service, for which a job might wait; empty: none are.

    sbatch takes a job whose nodes are drained, but refuses to say when it would start.
    """
    partition = parse_command_line(["sbatch", *submission.options]).options.get("partition", "")
    argv = ["sinfo", "-h", "-N", "-t", "down,drain,fail", "-o", "%N"]
    argv += [f"--partition={partition}"] if partition else []
    try:
        names = sorted(set(commands.run(argv, timeout_s=_SINFO_S).split()))
    except SlurmError:
        return ""
    if not names:
        return ""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    listed = ", ".join(names[:_NAMED])
    return (
        f"Slurm has no node for this job now, where {listed}{more} are down or drained; sbatch may "
        "take it, to wait for them"
    )


def add(
    advice: Advice,
    words: Sequence[str],
    job: JobFields,
    how: "Advise | StartEstimates",
    *,
    now_s: float,
) -> None:
    """Put Slurm's estimates into the rows of an advice.

    Raises SlurmError: Slurm gives none, or the site does not allow the request.
    """
    if not how.test_only:
        raise SlurmError("this site does not let nimo-advise ask for them")
    if job.get("het_job_offset") is not None:
        raise SlurmError("not for heterogeneous jobs")
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    starts_s = starts(
        submission_of(words, job["script"]),
        counts_of(advice.rows, how.calls),
        partial(run, environ=os.environ, timeout_s=how.timeout_s),
        StartEstimateCache(Path(cache) / "nimo" / "estimates.json", keep_s=how.cache_s),
        now_s=now_s,
    )
    for row in advice.rows:
        if row.nodes in starts_s:
            row.slurm_wait_s = max(starts_s[row.nodes] - now_s, 0.0)
