"""Lines that NIMO needs and slurm.conf lacks: pure."""

from collections.abc import Mapping

from slurm_plugin.doctor.installation import words

#: Parameter -> word that has to be in its list.
_WORDS = {
    "JobSubmitPlugins": "lua",
    "CliFilterPlugins": "lua",
    "AccountingStoreFlags": "job_comment",
}
_GATHERING = "JobAcctGatherType"


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
        # From 24.11 on Slurm says (null) where 22.05 names the plugin that does nothing.
        nothing = said.endswith("/none") or said == "(null)"
        return f"{_GATHERING}=jobacct_gather/cgroup" if nothing else ""
    has = words(said)
    word = _WORDS[parameter]
    return "" if word in has else f"{parameter}={','.join([*has, word])}"


def lines(slurm: Mapping[str, str]) -> list[str]:
    """All lines that slurm.conf lacks.

    >>> lines({"JobSubmitPlugins": "lua", "CliFilterPlugins": "(null)",
    ...     "AccountingStoreFlags": "job_comment", "JobAcctGatherType": "jobacct_gather/linux"})
    ['CliFilterPlugins=lua']
    """
    return [missing for name in (*_WORDS, _GATHERING) if (missing := line(slurm, name))]
