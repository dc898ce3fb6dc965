"""The configuration of the throw-away Slurm, for the releases that Debian has had and will have."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.cluster.configuration import Layout, Settings, files
from tests.processes import Account

LAYOUT = Layout(Path("/c"))
SLURM = Account("slurm", 64030, 64030)
ROOT = Account("root", 0, 0)
SETTINGS = Settings(
    version=(22, 5), account=SLURM, slurmd_account=ROOT, ports=range(7000, 7005), nodes=3, cpus=2
)


def parameters(text: str) -> dict[str, str]:
    pairs = (line.partition("=") for line in text.splitlines())
    return {key: value for key, _, value in pairs}


@pytest.mark.parametrize(
    ("version", "cgroup", "flags", "path"),
    [
        ((22, 5), None, "job_comment,job_script,job_env", None),
        ((24, 11), "disabled", "job_comment,job_script,job_env,job_extra", None),
        ((26, 5), "disabled", "job_comment,job_script,job_env,job_extra", "/c/etc/cli_filter.lua"),
    ],
)
def test_releases_differ(version, cgroup, flags, path):
    settings = replace(SETTINGS, version=version, plugins=("JobSubmitPlugins", "CliFilterPlugins"))
    written = files(LAYOUT, settings)
    slurm_conf = parameters(written["slurm.conf"])
    assert slurm_conf["AccountingStoreFlags"] == flags
    assert slurm_conf["CliFilterPlugins"] == "lua"
    assert slurm_conf.get("CliFilterParameters") == (path and f"cli_filter_lua_path={path}")
    assert parameters(written.get("cgroup.conf", "")).get("CgroupPlugin") == cgroup
