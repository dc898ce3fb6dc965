"""Whether Slurm plans with ``--time-min`` and ends jobs at ``--time``: its word, and a trial."""

import time
from collections.abc import Callable, Iterator
from math import inf

from sacct_ingest.errors import SlurmError
from slurm_plugin.config.setting_types import SoftUse
from slurm_plugin.doctor.installation import (
    Finding,
    Installation,
    Run,
    fine,
    skipped,
    warning,
    wrong,
)
from slurm_plugin.slurm.slurm_conf import SOFT_OPTION, SlurmConf, read_settings

_HOW = "docs/install.md, Limits to plan with"
#: The first job asks for ten minutes, is planned with one, and takes more than that.
_FIRST = ("-t10", "--time-min=1", "--wrap", "sleep 75")
_JOB = ("sbatch", "--parsable", "-N1", "--exclusive", "--chdir=/", "-o/dev/null", "-Jnimo-doctor")
_START_S, _END_S, _PAUSE_S = 120.0, 180.0, 2.0
#: Its end as it is planned: after a minute or two, or after ten.
_SOON_S = 300.0


def limits(installation: Installation) -> Iterator[Finding]:
    """Slurm plans with limits that end no job, where the settings want that."""
    config = installation.settings
    if SoftUse.ON not in (config.time_limit.soft, *(rule.soft for rule in config.rules)):
        yield fine("time_limit.soft is off: Slurm plans with users' limits")
        return
    said = _said(installation)
    if not said.plans_softly and said.release < (23, 11):
        version = installation.slurm.get("SLURM_VERSION", "")
        yield wrong(
            f"Slurm {version} has no limits to plan with: NIMO sets none",
            "upgrade Slurm to 23.11 or newer, better 25.05.4, or take time_limit.soft off",
        )
    elif not said.plans_softly:
        yield warning(
            f"SchedulerParameters has no {SOFT_OPTION}: NIMO sets no limits to plan with", _HOW
        )
    elif said.ends_softly:
        yield fine("Slurm plans with --time-min, and ends jobs at --time")
    else:
        yield fine("Slurm plans with --time-min; running jobs count up to --time before 25.05.4")


def limits_for_real(
    installation: Installation, pause: Callable[[float], None] = time.sleep
) -> Iterator[Finding]:
    """Try with two jobs whether the first outlives its plan, and the second is planned behind it.

    pause: waits for so many seconds.
    """
    if not _said(installation).plans_softly:
        yield skipped(f"two jobs were not tried: {SOFT_OPTION} is not in force")
        return
    ids: list[str] = []
    try:
        ids.append(_submitted(installation.run, *_FIRST))
        yield from _outcome(installation.run, ids, pause)
    except SlurmError as error:
        yield skipped(f"two jobs could not be tried: {error}")
    finally:
        for job in ids:
            try:
                installation.run(("scancel", job))
            except SlurmError:
                continue  # it has ended


def _outcome(run: Run, ids: list[str], pause: Callable[[float], None]) -> Iterator[Finding]:
    first = _awaited(run, ids[0], lambda job: job["JobState"] != "PENDING", _START_S, pause)
    if first["JobState"] == "PENDING":
        yield skipped("two jobs could not be tried: no node was free for two minutes")
        return
    ids.append(_submitted(run, f"-w{first['NodeList']}", "-t1", "--wrap", "sleep 1"))
    second = _awaited(run, ids[1], lambda job: _start_s(job) < inf, _END_S / 3, pause)
    delay_s = _start_s(second) - _start_s(first)
    if delay_s == inf:
        yield skipped("backfill gave the second of two jobs no start within a minute")
    elif delay_s < _SOON_S:
        yield fine("tried: a running job is planned to end by its --time-min")
    else:
        yield fine("tried: a running job is planned to end by its --time, not its --time-min")
    ended = _awaited(run, ids[0], lambda job: job["JobState"] not in _RUNS, _END_S, pause)
    if ended["JobState"] == "COMPLETED" and ended["TimeLimit"] == first["TimeLimit"]:
        yield fine("tried: a job that outlasts its --time-min runs on")
    else:
        yield wrong(
            f"tried: a job with --time-min=1 and --time=10 ended as {ended['JobState']} with a "
            f"limit of {ended['TimeLimit']}",
            "take time_limit.soft off, then: nimo limits --restore",
        )


_RUNS = ("RUNNING", "CONFIGURING", "COMPLETING", "SUSPENDED")


def _said(installation: Installation) -> SlurmConf:
    text = installation.slurm_text
    return read_settings(text) if isinstance(text, str) else SlurmConf()


def _submitted(run: Run, *options: str) -> str:
    return run((*_JOB, "--comment=nimo:off", *options)).strip().partition(";")[0]


def _awaited(
    run: Run,
    job: str,
    done: Callable[[dict[str, str]], bool],
    most_s: float,
    pause: Callable[[float], None],
) -> dict[str, str]:
    """Fields of a job once something is so, or after so long."""
    waited_s = 0.0
    while True:
        text = run(("scontrol", "show", "job", "-o", job))
        fields = dict(word.partition("=")[::2] for word in text.split() if "=" in word)
        if done(fields) or waited_s >= most_s:
            return fields
        pause(_PAUSE_S)
        waited_s += _PAUSE_S


def _start_s(job: dict[str, str]) -> float:
    text = job.get("StartTime", "")
    return float(text) if text.isdecimal() and text != "0" else inf
