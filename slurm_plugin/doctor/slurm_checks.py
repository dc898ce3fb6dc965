"""Checks of Slurm: munge, slurmctld and its settings, slurmdbd, clocks, limits to plan with."""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from math import inf

from sacct_ingest.errors import SlurmError
from sacct_ingest.text.durations import duration_text
from slurm_plugin.config.setting_types import SoftUse
from slurm_plugin.doctor.installation import (
    CONF_FIX,
    Finding,
    Installation,
    Run,
    fine,
    line,
    read_pairs,
    skipped,
    warning,
    wrong,
)
from slurm_plugin.slurm.slurm_conf import SOFT_OPTION, SlurmConf, read_settings

#: Releases of Slurm with which the tests run.
FIRST, LAST = (22, 5), (26, 5)
#: First release of each line without the eight CVEs of September 2026; earlier lines have no such.
SOUND = {(25, 5): 9, (25, 11): 8, (26, 5): 4}
_SKEW_S = 5.0
_CLOCK = re.compile(r"^Configuration data as of (\d+)", re.MULTILINE)

#: Units of slurmdbd.conf(5), in days.
_UNITS = {"hour": 1 / 24, "day": 1.0, "month": 30.0, "year": 365.0}
_HOW = "see 'Limits to plan with' in docs/install.md"
#: The first job asks for ten minutes, is planned with one, and takes more than that.
_FIRST = ("-t10", "--time-min=1", "--wrap", "sleep 75")
_JOB = ("sbatch", "--parsable", "-N1", "--exclusive", "--chdir=/", "-o/dev/null", "-Jnimo-doctor")
_START_S, _END_S, _PAUSE_S = 120.0, 180.0, 2.0
#: Its end as it is planned: after a minute or two, or after ten.
_SOON_S = 300.0
_RUNS = ("RUNNING", "CONFIGURING", "COMPLETING", "SUSPENDED")


def munge(installation: Installation) -> Iterator[Finding]:
    """Munged answers."""
    said = installation.slurm
    if not said:  # slurmctld does not answer
        with suppress(OSError):
            said = read_pairs(installation.slurm_conf.read_text(errors="replace"))
    if (used := said.get("AuthType", "auth/munge")) != "auth/munge":
        yield skipped(f"Slurm uses {used}, not munge")
        return
    match = re.search(r"socket=([^,]+)", said.get("AuthInfo", ""))
    try:
        installation.run(("munge", "-n", *(("-S", match[1]) if match else ())))
    except SlurmError as error:
        yield wrong(str(error), "systemctl start munge; the key must be that of slurmctld's host")
    else:
        yield fine("munged answers")


def slurmctld(installation: Installation) -> Iterator[Finding]:
    """Slurmctld answers, and its release is one that the tests run with."""
    if isinstance(installation.slurm_text, SlurmError):
        yield wrong(
            str(installation.slurm_text),
            "start munge and slurmctld; have Slurm's commands on PATH and slurm.conf in place",
        )
        return
    version = installation.slurm.get("SLURM_VERSION", "")
    release = _said(installation).release
    if not version:
        yield wrong(
            "scontrol show config names no release", "put Slurm's own scontrol first on PATH"
        )
    elif release < FIRST:
        yield wrong(f"Slurm {version} is too old", "NIMO needs 22.05 or newer")
    elif release > LAST:
        yield warning(
            f"Slurm {version} is newer than the tested releases",
            "upgrade NIMO, or try both on a test cluster first",
        )
    else:
        yield fine(f"slurmctld answers, Slurm {version}")


def security(installation: Installation) -> Iterator[Finding]:
    """Check the release for known security holes."""
    version = installation.slurm.get("SLURM_VERSION", "")
    numbers = [int(number) for number in re.findall(r"\d+", version)[:3]]
    if len(numbers) < 3:
        yield skipped("slurmctld does not say which release it is")
        return
    line_ = (numbers[0], numbers[1])
    patch = numbers[2]
    if line_ > max(SOUND) or patch >= SOUND.get(line_, inf):
        yield fine(f"Slurm {version} has the security fixes of September 2026")
        return
    sound = ", ".join(f"{year}.{month:02}.{least}" for (year, month), least in SOUND.items())
    yield warning(
        f"Slurm {version} lacks the fixes of eight CVEs of September 2026",
        f"upgrade to {sound} or newer, unless your distribution has fixed {version}",
    )


def clock(installation: Installation) -> Iterator[Finding]:
    """Check that this machine's clock agrees with slurmctld's."""
    match = _CLOCK.search(str(installation.slurm_text))
    skew_s = installation.now_s - float(match[1]) if match else 0.0
    if abs(skew_s) > _SKEW_S:
        yield wrong(
            f"this machine's clock is {duration_text(abs(skew_s))} "
            f"{'ahead of' if skew_s > 0 else 'behind'}"
            " slurmctld's: waits and deadlines are off by that",
            "synchronise both clocks (chrony, systemd-timesyncd)",
        )
    else:
        yield fine("clocks agree")


def slurmdbd(installation: Installation) -> Iterator[Finding]:
    """Slurm stores accounting, and slurmdbd answers."""
    if installation.slurm.get("AccountingStorageType", "").endswith("/none"):
        yield wrong(
            "Slurm stores no accounting, so NIMO has no history to read",
            f"set up slurmdbd and AccountingStorageType=accounting_storage/slurmdbd {CONF_FIX}",
        )
    elif said := _slurmdbd_settings(installation):
        yield fine(f"slurmdbd answers, {said.get('SLURMDBD_VERSION', 'without its release')}")
    else:
        answer = installation.slurmdbd_text
        yield wrong(
            f"slurmdbd does not answer{f': {answer}' if isinstance(answer, SlurmError) else ''}",
            "start slurmdbd; AccountingStorageHost in slurm.conf names its host",
        )


def retention(installation: Installation) -> Iterator[Finding]:
    """Slurmdbd keeps jobs for as long as the first ingest goes back."""
    if not _slurmdbd_settings(installation):
        yield skipped("slurmdbd does not answer")
        return
    days = purge_days(installation)
    needed_days = installation.settings.ingest.first_days
    if days is not None and days < needed_days:
        yield warning(
            f"slurmdbd forgets jobs after {days:g} days, the first ingest goes back {needed_days}",
            f"PurgeJobAfter={needed_days}days in slurmdbd.conf; NIMO's own store keeps what it "
            "has read",
        )
    else:
        yield fine(f"slurmdbd keeps jobs {'for ever' if days is None else f'for {days:g} days'}")


def purge_days(installation: Installation) -> float | None:
    """Days for which slurmdbd keeps jobs; None: for ever, or it does not answer."""
    match = re.match(
        r"(\d+)\s*(hour|day|month|year)?",
        _slurmdbd_settings(installation).get("PurgeJobAfter", "").strip(" *").lower(),
    )
    return int(match[1]) * _UNITS[match[2] or "month"] if match else None


def comments(installation: Installation) -> Iterator[Finding]:
    """Comments, with their tags, reach the accounting."""
    if missing := line(installation.slurm, "AccountingStoreFlags"):
        yield warning(
            "the accounting keeps no comments (AccountingStoreFlags has no job_comment): NIMO "
            "knows tags in #SBATCH lines only of jobs that were submitted while nimod ran",
            f"{missing} {CONF_FIX}",
        )
    else:
        yield fine("the accounting stores job comments")


def gathering(installation: Installation) -> Iterator[Finding]:
    """CPU time and memory of jobs are measured."""
    if missing := line(installation.slurm, "JobAcctGatherType"):
        yield warning(
            "JobAcctGatherType is none: Slurm does not measure CPU time and memory of jobs",
            f"{missing} in slurm.conf, then restart Slurm",
        )
    else:
        yield fine(f"{installation.slurm['JobAcctGatherType']} measures CPU time and memory")


def _slurmdbd_settings(installation: Installation) -> dict[str, str]:
    """Slurmdbd's own settings; sacctmgr prints its local ones without it, and status 0."""
    text = installation.slurmdbd_text
    return read_pairs(text.partition("SlurmDBD configuration:")[2]) if isinstance(text, str) else {}


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
            f"Slurm {version} has no limits to plan with: time_limit.soft does nothing",
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
