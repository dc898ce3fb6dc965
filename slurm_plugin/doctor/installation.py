"""What checks look at: settings, Slurm's answers, slurm.conf, files beside it; their findings."""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from pathlib import Path

import msgspec

from sacct_ingest.errors import NimoError, SlurmError
from slurm_plugin.config.settings import Config
from slurm_plugin.slurm.slurm_conf import CONFIG

_LINE = re.compile(r"^(\w+)\s*= ?(.*?)\s*$", re.MULTILINE)
_SLURM_CONF = "/etc/slurm/slurm.conf"
#: Parameter -> word that has to be in its list.
_WORDS = {
    "JobSubmitPlugins": "lua",
    "CliFilterPlugins": "lua",
    "AccountingStoreFlags": "job_comment",
}
_GATHERING = "JobAcctGatherType"
#: Where and how a line of slurm.conf takes effect.
CONF_FIX = "in slurm.conf, then: scontrol reconfigure"


class FindingState(StrEnum):
    """Severity of a finding."""

    OK = "ok"
    WARNING = "warning"  #: it works, but not as well as it could
    ERROR = "error"  #: NIMO does not work with it
    SKIPPED = "skipped"  #: cannot be checked from here


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One result of one check."""

    check: str = ""
    state: FindingState
    message: str  #: the result of the check
    fix: str = ""  #: what to do about it; empty where nothing has to be done


def fine(message: str) -> Finding:
    """Say that something is as it should be."""
    return Finding(state=FindingState.OK, message=message)


def warning(message: str, fix: str) -> Finding:
    """Say what could be better, and how."""
    return Finding(state=FindingState.WARNING, message=message, fix=fix)


def wrong(message: str, fix: str) -> Finding:
    """Say what keeps NIMO from working, and how to fix it."""
    return Finding(state=FindingState.ERROR, message=message, fix=fix)


def skipped(message: str) -> Finding:
    """Say why something was not checked."""
    return Finding(state=FindingState.SKIPPED, message=message)


#: Runs a command and gives its text; raises SlurmError.
Run = Callable[[Sequence[str]], str]


@dataclass(frozen=True)
class Installation:
    """One installation.

    config: NIMO's settings, or the error that reading them ended with.
    config_file: where they are; None for the built-in defaults.
    run: runs one command, with times as seconds since the epoch.
    now_s: this machine's clock.
    environ: environment variables.
    """

    config: Config | NimoError
    config_file: Path | None
    run: Run
    now_s: float
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)

    @property
    def settings(self) -> Config:
        """NIMO's settings; the built-in ones where they cannot be read."""
        return self.config if isinstance(self.config, Config) else Config()

    @cached_property
    def slurm_text(self) -> str | SlurmError:
        """``scontrol show config``, or why there is none."""
        return self._answer(CONFIG)

    @cached_property
    def slurm(self) -> Mapping[str, str]:
        """Slurm's settings as slurmctld has them in force; empty if it does not answer."""
        return read_pairs(self.slurm_text) if isinstance(self.slurm_text, str) else {}

    @cached_property
    def slurmdbd_text(self) -> str | SlurmError:
        """``sacctmgr show config``, or why there is none."""
        return self._answer(("sacctmgr", "-n", "show", "config"))

    @property
    def slurm_conf(self) -> Path:
        """Where slurm.conf is; the hooks are beside it."""
        path = self.slurm.get("SLURM_CONF") or self.environ.get("SLURM_CONF")
        return Path(path or _SLURM_CONF)

    @property
    def hooks(self) -> Path:
        """Folder of the hooks."""
        return self.slurm_conf.parent

    def _answer(self, argv: Sequence[str]) -> str | SlurmError:
        try:
            return self.run(argv)
        except SlurmError as error:
            return error


def read_pairs(text: str) -> dict[str, str]:
    r"""Read ``Key = value`` lines as scontrol and sacctmgr print them; not those without a value.

    >>> read_pairs("PurgeJobAfter          = NONE\nJobAcctGatherType =\n")
    {'PurgeJobAfter': 'NONE'}
    """
    return {name: value for name, value in _LINE.findall(text) if value}


def words(value: str) -> list[str]:
    """Words of a list in slurm.conf.

    >>> words("all_partitions,lua")
    ['all_partitions', 'lua']
    """
    return [word for word in value.split(",") if word and word != "(null)"]


def line(slurm: Mapping[str, str], parameter: str) -> str:
    """Line of slurm.conf with what NIMO needs added to what is in force; empty: nothing is missing.

    slurm: settings as ``scontrol show config`` prints them.

    >>> line({"JobSubmitPlugins": "all_partitions"}, "JobSubmitPlugins")
    'JobSubmitPlugins=all_partitions,lua'
    >>> line({"JobSubmitPlugins": "lua"}, "JobSubmitPlugins")
    ''
    """
    said = slurm.get(parameter, "")
    if parameter == _GATHERING:
        # From 24.11 on Slurm says (null) or nothing where 22.05 names the plugin of that name.
        nothing = said.endswith("/none") or said in {"", "(null)"}
        return f"{_GATHERING}=jobacct_gather/cgroup" if nothing else ""
    has = words(said)
    word = _WORDS[parameter]
    return "" if word in has else f"{parameter}={','.join([*has, word])}"


def missing_lines(slurm: Mapping[str, str]) -> list[str]:
    """All lines that slurm.conf lacks.

    >>> missing_lines({"JobSubmitPlugins": "lua", "CliFilterPlugins": "(null)",
    ...     "AccountingStoreFlags": "job_comment", "JobAcctGatherType": "jobacct_gather/linux"})
    ['CliFilterPlugins=lua']
    """
    return [missing for name in (*_WORDS, _GATHERING) if (missing := line(slurm, name))]
