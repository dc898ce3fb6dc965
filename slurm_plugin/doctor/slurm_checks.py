"""Checks of Slurm: munge, slurmctld and its settings, slurmdbd, clocks."""

import re
from collections.abc import Iterator
from contextlib import suppress
from math import inf
from pathlib import Path

from sacct_ingest.errors import SlurmError
from slurm_plugin.doctor.installation import (
    Finding,
    Installation,
    fine,
    read_pairs,
    skipped,
    warning,
    wrong,
)
from slurm_plugin.doctor.slurm_conf_lines import line

#: Releases of Slurm with which the tests run.
FIRST, LAST = (22, 5), (26, 5)
#: First release of each line without the eight CVEs of September 2026; earlier lines have no such.
SOUND = {(25, 5): 9, (25, 11): 8, (26, 5): 4}
_SKEW_S = 5.0
_CLOCK = re.compile(r"^Configuration data as of (\d+)", re.MULTILINE)
_FILTER_PATH = re.compile(r"cli_filter_lua_path=([^,\s]+)")  #: since 25.11

#: Units of slurmdbd.conf(5), in days.
_UNITS = {"hour": 1 / 24, "day": 1.0, "month": 30.0, "year": 365.0}
_CONF_FIX = "in slurm.conf, then: scontrol reconfigure"


def munge(installation: Installation) -> Iterator[Finding]:
    """Munged answers."""
    said = installation.slurm
    if not said:  # slurmctld does not answer
        with suppress(OSError):
            said = read_pairs(installation.slurm_conf.read_text(errors="replace"))
    if (used := said.get("AuthType", "auth/munge")) != "auth/munge":
        yield skipped(f"{used} is used instead")
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
    numbers = [int(number) for number in re.findall(r"\d+", version)[:2]]
    release = (numbers[0], numbers[1]) if len(numbers) == 2 else (0, 0)
    if not version:
        yield wrong("scontrol show config names no release", "is it Slurm's own scontrol on PATH?")
    elif release < FIRST:
        yield wrong(f"Slurm {version} is too old", "NIMO needs 22.05 or newer")
    elif release > LAST:
        yield warning(
            f"Slurm {version} is newer than the tested releases", "upgrade NIMO, or try it first"
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
    line_, patch = (numbers[0], numbers[1]), numbers[2]
    if line_ > max(SOUND) or patch >= SOUND.get(line_, inf):
        yield fine(f"Slurm {version} has the security fixes of September 2026")
        return
    sound = ", ".join(f"{year}.{month:02}.{least}" for (year, month), least in SOUND.items())
    yield warning(
        f"Slurm {version} lacks the fixes of eight CVEs of September 2026",
        f"upgrade to {sound} or newer, unless your distribution has fixed {version}",
    )


def job_submit(installation: Installation) -> Iterator[Finding]:
    """Slurmctld calls the hook, and can run Lua."""
    if line(installation.slurm, "JobSubmitPlugins"):
        yield wrong(
            "JobSubmitPlugins has no lua: slurmctld does not run NIMO's hook",
            f"{line(installation.slurm, 'JobSubmitPlugins')} {_CONF_FIX}",
        )
    else:
        yield fine("JobSubmitPlugins has lua")
    yield from _plugin(installation, "job_submit_lua.so")


def _plugin(installation: Installation, name: str) -> Iterator[Finding]:
    folders = [Path(part) for part in installation.slurm.get("PluginDir", "").split(":") if part]
    if not any(folder.is_dir() for folder in folders):
        yield skipped("Slurm's plugins are not on this machine; run this where slurmctld runs")
    elif not any((folder / name).exists() for folder in folders):
        yield wrong(
            f"{name} is not in {installation.slurm['PluginDir']}",
            "install a Slurm that was built with Lua (Debian's is; RPM: rpmbuild --with lua)",
        )


def cli_filter(installation: Installation) -> Iterator[Finding]:
    """Commands pass the deadline on."""
    named = _FILTER_PATH.search(installation.slurm.get("CliFilterParameters", ""))
    path = Path(named[1]) if named else installation.hooks / "cli_filter.lua"
    if not line(installation.slurm, "CliFilterPlugins"):
        # Where the file itself is not, no commands are expected to run.
        if named and path.exists() and not path.with_name("nimo_filter.lua").exists():
            yield warning(
                f"commands load {path}, and NIMO's modules are not beside it",
                f"nimo hook-path --install {path.parent}",
            )
        else:
            yield fine("CliFilterPlugins has lua")
    else:
        yield warning(
            "CliFilterPlugins has no lua: NIMO cannot read --deadline of the command line",
            f"{line(installation.slurm, 'CliFilterPlugins')} in slurm.conf of the login nodes",
        )


def clock(installation: Installation) -> Iterator[Finding]:
    """Check that this machine's clock agrees with slurmctld's."""
    match = _CLOCK.search(str(installation.slurm_text))
    skew_s = installation.now_s - float(match[1]) if match else 0.0
    if abs(skew_s) > _SKEW_S:
        yield wrong(
            f"this machine's clock is {abs(skew_s):.0f} s {'ahead of' if skew_s > 0 else 'behind'}"
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
            f"set up slurmdbd and AccountingStorageType=accounting_storage/slurmdbd {_CONF_FIX}",
        )
    elif not _slurmdbd_settings(installation):
        answer = installation.slurmdbd_text
        yield wrong(
            f"slurmdbd does not answer{f': {answer}' if isinstance(answer, SlurmError) else ''}",
            "start slurmdbd; AccountingStorageHost in slurm.conf names its host",
        )
    else:
        yield fine(
            f"slurmdbd answers, {_slurmdbd_settings(installation).get('SLURMDBD_VERSION', '')}"
        )


def retention(installation: Installation) -> Iterator[Finding]:
    """Slurmdbd keeps jobs for as long as the first ingest goes back."""
    if not _slurmdbd_settings(installation):
        yield skipped("slurmdbd does not answer")
        return
    days, needed_days = purge_days(installation), installation.settings.ingest.first_days
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
    return retention_days(_slurmdbd_settings(installation).get("PurgeJobAfter", ""))


def retention_days(text: str) -> float | None:
    """Days for which slurmdbd keeps jobs; None: for ever.

    >>> retention_days("12 months"), retention_days("36hours"), retention_days("NONE")
    (360.0, 1.5, None)
    """
    match = re.match(r"(\d+)\s*(hour|day|month|year)?", text.strip(" *").lower())
    return int(match[1]) * _UNITS[match[2] or "month"] if match else None


def comments(installation: Installation) -> Iterator[Finding]:
    """Comments, with their tags, reach the accounting."""
    if not line(installation.slurm, "AccountingStoreFlags"):
        yield fine("the accounting stores job comments")
    else:
        yield warning(
            "AccountingStoreFlags has no job_comment: the accounting loses tags in comments; "
            "Snakemake's rules are known only of jobs that nimod saw submitted",
            f"{line(installation.slurm, 'AccountingStoreFlags')} {_CONF_FIX}",
        )


def gathering(installation: Installation) -> Iterator[Finding]:
    """CPU time and memory of jobs are measured."""
    if line(installation.slurm, "JobAcctGatherType"):
        yield warning(
            "JobAcctGatherType is none: Slurm does not measure CPU time and memory of jobs",
            f"{line(installation.slurm, 'JobAcctGatherType')} in slurm.conf, then restart Slurm",
        )
    else:
        yield fine(
            f"{installation.slurm.get('JobAcctGatherType', '')} measures CPU time and memory"
        )


def _slurmdbd_settings(installation: Installation) -> dict[str, str]:
    """Slurmdbd's own settings; sacctmgr prints its local ones without it, and status 0."""
    text = installation.slurmdbd_text
    return read_pairs(text.partition("SlurmDBD configuration:")[2]) if isinstance(text, str) else {}
