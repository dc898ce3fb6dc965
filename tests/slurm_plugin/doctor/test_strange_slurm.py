"""What the doctor says where Slurm's commands say less than Slurm's own do."""

from argparse import Namespace
from pathlib import Path

import pytest

from slurm_plugin.cli.commands.doctor import installation_of
from slurm_plugin.doctor import hooks_checks, slurm_checks
from slurm_plugin.doctor.installation import FindingState, Installation


@pytest.fixture
def installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Installation:
    scontrol = tmp_path / "scontrol"
    scontrol.write_text("#!/bin/sh\necho ClusterName = pine\n")
    scontrol.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return installation_of(Namespace(config=None, store=""))


def test_no_release_is_reported(installation):
    (result,) = slurm_checks.slurmctld(installation)
    assert (result.state, result.message) == (
        FindingState.ERROR,
        "scontrol show config names no release",
    )


def test_no_folder_of_plugins_is_skipped(installation):
    assert [result.state for result in slurm_checks.job_submit(installation)] == [
        FindingState.ERROR,
        FindingState.SKIPPED,
    ]


@pytest.mark.parametrize(
    ("release", "state"),
    [
        *(("22.05.8", "WARNING"), ("24.11.5", "WARNING"), ("25.02.1", "WARNING")),
        *(("25.05.8", "WARNING"), ("25.05.9", "OK"), ("25.11.7", "WARNING")),
        *(("25.11.8", "OK"), ("26.05.3", "WARNING"), ("26.05.4", "OK"), ("26.11.0", "OK")),
        ("", "SKIPPED"),
    ],
)
def test_releases_with_holes_are_named(installation, tmp_path, release, state):
    (tmp_path / "scontrol").write_text(f"#!/bin/sh\necho 'SLURM_VERSION = {release}'\n")
    (result,) = slurm_checks.security(installation)
    assert result.state is FindingState[state]
    assert (f"Slurm {release} lacks the fixes" in result.message) is (state == "WARNING")


@pytest.mark.parametrize(
    ("files", "fine"),
    [
        (["cli_filter.lua", "nimo_filter.lua"], True),
        (["cli_filter.lua"], False),
        ([], True),  # as on a controller without commands
    ],
)
def test_commands_that_load_a_filter_from_elsewhere(installation, tmp_path, files, *, fine):
    folder = tmp_path / "filters"
    folder.mkdir()
    for name in files:
        (folder / name).touch()
    (tmp_path / "scontrol").write_text(
        "#!/bin/sh\necho 'CliFilterPlugins = lua'\n"
        f"echo 'CliFilterParameters = cli_filter_lua_path={folder}/cli_filter.lua'\n"
    )
    (result,) = slurm_checks.cli_filter(installation)
    assert result.state is FindingState["OK" if fine else "WARNING"]
    assert (f"nimo hook-path --install {folder}" in result.fix) is not fine


def test_no_lua_of_the_current_folder_runs(installation, tmp_path, monkeypatch):
    (tmp_path / "socket").mkdir()
    (tmp_path / "socket/unix.lua").write_text(f"io.open('{tmp_path}/ran', 'w'):close()")
    monkeypatch.chdir(tmp_path)
    assert list(hooks_checks.modules(installation))
    assert not (tmp_path / "ran").exists()
