"""The configuration of the throw-away Slurm, for the releases that Debian has had and will have."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.cluster.configuration import Layout, Settings, files, override
from tests.cluster.listing import job_fields, table
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


def test_every_daemon_has_its_own_port():
    written = files(LAYOUT, SETTINGS)
    slurm_conf = parameters(written["slurm.conf"])
    slurmdbd_conf = parameters(written["slurmdbd.conf"])
    assert slurm_conf["SlurmctldPort"] == "7000"
    assert slurm_conf["AccountingStoragePort"] == slurmdbd_conf["DbdPort"] == "7001"
    nodes = [line for line in written["slurm.conf"].splitlines() if line.startswith("NodeName=")]
    assert [line.split()[0] for line in nodes] == ["NodeName=n1", "NodeName=n2", "NodeName=n3"]
    assert [line.split()[3] for line in nodes] == ["Port=7002", "Port=7003", "Port=7004"]


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


def test_daemons_may_be_distinguished_without_munge():
    written = files(LAYOUT, replace(SETTINGS, version=(24, 11), auth="slurm"))
    for name in ("slurm.conf", "slurmdbd.conf"):
        assert parameters(written[name])["AuthType"] == "auth/slurm"
        assert "munge" not in written[name]


def test_a_plugin_that_is_not_there_is_not_named():
    slurm_conf = files(LAYOUT, replace(SETTINGS, version=(26, 5)))["slurm.conf"]
    assert "Plugins=" not in slurm_conf
    assert "CliFilter" not in slurm_conf


def test_own_lines_replace_ours_and_nodes_add_up():
    lines = ["KillWait=2", "MpiDefault=none", "NodeName=n1"]
    assert override(lines, ["KillWait=30", "NodeName=big"]) == [
        *("MpiDefault=none", "NodeName=n1"),
        *("KillWait=30", "NodeName=big"),
    ]


def test_a_job_is_read_from_scontrol():
    text = (
        "JobId=7 ArrayJobId=7 JobName=a b\n"
        "   NumNodes=2 TRES=cpu=8,node=2\n"
        "   Comment=x y=1 \n"
        "   Power=\n\n"
        "JobId=8 JobName=the next one\n"
    )
    assert job_fields(text) == {
        "JobId": "7",
        "ArrayJobId": "7",
        "JobName": "a b",
        "NumNodes": "2",
        "TRES": "cpu=8,node=2",
        "Comment": "x y=1",
        "Power": "",
    }


def test_rows_of_sacct_end_where_their_fields_do():
    text = "JobName~State\nplain~FAILED\ntwo\nlines~COMPLETED\n"
    assert table(text, ("JobName", "State"), "~") == [
        {"JobName": "plain", "State": "FAILED"},
        {"JobName": "two\nlines", "State": "COMPLETED"},
    ]
