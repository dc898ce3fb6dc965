"""What the doctor says where Slurm's commands say less than Slurm's own do."""

from argparse import Namespace

import pytest

from slurm_plugin.cli.commands.doctor import installation_of
from slurm_plugin.config.setting_types import SoftUse
from slurm_plugin.config.settings import Config, TimeLimit
from slurm_plugin.doctor import CHECKS, hooks_checks, slurm_checks
from slurm_plugin.doctor.installation import FindingState, Installation
from slurm_plugin.doctor.slurm_checks import limits, limits_for_real


@pytest.fixture
def installation(tmp_path, monkeypatch):
    scontrol = tmp_path / "scontrol"
    scontrol.write_text("#!/bin/sh\necho ClusterName = pine\n")
    scontrol.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return installation_of(Namespace(config=None, store=""))


_SETTINGS = (
    *("AuthType", "AuthInfo", "SLURM_VERSION", "AccountingStorageType", "AccountingStoreFlags"),
    *("JobAcctGatherType", "JobSubmitPlugins", "CliFilterPlugins", "PluginDir", "SLURM_CONF"),
    *("BOOT_TIME", "SchedulerParameters", "ClusterName", "SLURMDBD_VERSION", "PurgeJobAfter"),
)


@pytest.mark.parametrize("empty", _SETTINGS)
def test_sentences_have_no_hole_where_a_setting_is_empty(empty):
    text = "\n".join(f"{name} = {'' if name == empty else 'x'}" for name in _SETTINGS)
    asked = Installation(Config(), None, lambda _: f"SlurmDBD configuration:\n{text}\n", 0.0, {})
    for check in CHECKS[1:18]:
        for found in check.make(asked):
            for said in (found.message, found.fix):
                assert said == " ".join(said.split()).strip(" ,:")
                assert "None" not in said


def test_memory_that_an_empty_type_does_not_measure():
    slurm = {"JobAcctGatherType": "", "ClusterName": "pine"}
    asked = Installation(
        Config(), None, lambda _: "\n".join(f"{name} = {one}" for name, one in slurm.items()), 0.0
    )
    (found,) = slurm_checks.gathering(asked)
    assert found.state is FindingState.WARNING
    assert "jobacct_gather/cgroup" in found.fix


def test_no_release_is_reported(installation):
    (result,) = slurm_checks.slurmctld(installation)
    assert (result.state, result.message) == (
        FindingState.ERROR,
        "scontrol show config names no release",
    )


def test_no_folder_of_plugins_is_skipped(installation):
    assert [result.state for result in hooks_checks.job_submit(installation)] == [
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
    (result,) = hooks_checks.cli_filter(installation)
    assert result.state is FindingState["OK" if fine else "WARNING"]
    assert (f"nimo hook-path --install {folder}" in result.fix) is not fine


def test_no_lua_of_the_current_folder_runs(installation, tmp_path, monkeypatch):
    (tmp_path / "socket").mkdir()
    (tmp_path / "socket/unix.lua").write_text(f"io.open('{tmp_path}/ran', 'w'):close()")
    monkeypatch.chdir(tmp_path)
    assert list(hooks_checks.modules(installation))
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("looks", ["yes", "no"])
def test_sizes_of_input_files_take_luaposix(installation, tmp_path, looks):
    lua = tmp_path / "lua5.1"
    lua.write_text('#!/bin/sh\ncase "$*" in *posix*) exit 1;; esac\n')
    lua.chmod(0o755)
    (tmp_path / "nimo_hook.conf").write_text(f"look_at_inputs = {looks}\n")
    conf = f"SLURM_CONF = {tmp_path}/slurm.conf"
    (tmp_path / "scontrol").write_text(f"#!/bin/sh\necho '{conf}'\n")
    first, *rest = hooks_checks.modules(installation)
    assert (first.state is FindingState.WARNING) is (looks == "yes")
    assert ("lua-posix" in first.fix) is bool(rest) is (looks == "yes")


ON = Config(time_limit=TimeLimit(soft=SoftUse.ON))


class Slurm:
    """Starts the first job at 100 s; plans the second so much later."""

    def __init__(
        self, release="26.05.5", option=",time_min_as_soft_limit", delay_s=60, end="COMPLETED"
    ):
        self.text = f"SLURM_VERSION = {release}\nSchedulerParameters = bf_interval=2{option}\n"
        self.delay_s, self.end, self.asked, self.cancelled = delay_s, end, 0, []

    def __call__(self, argv):
        if argv[0] == "sbatch":
            return "8\n" if any(one.startswith("-w") for one in argv) else "7;pine\n"
        if argv[0] == "scancel":
            self.cancelled.append(argv[1])
            return ""
        if argv[:3] != ("scontrol", "show", "job"):
            return self.text
        if argv[-1] == "8":
            return f"JobId=8 JobState=PENDING StartTime={100 + self.delay_s}\n"
        self.asked += 1
        state = ("PENDING", "RUNNING", "RUNNING")[self.asked - 1] if self.asked < 4 else self.end
        return f"JobId=7 JobState={state} StartTime=100 NodeList=n1 TimeLimit=00:10:00\n"


def said(slurm, config=ON, check=limits):
    return [(one.state.value, one.message) for one in check(Installation(config, None, slurm, 0.0))]


@pytest.mark.parametrize(
    ("slurm", "config", "state", "word"),
    [
        (Slurm(), ON, "ok", "ends jobs at --time"),
        (Slurm("24.11.5"), ON, "ok", "before 25.05.4"),
        (Slurm(option=""), ON, "warning", "time_min_as_soft_limit"),
        (Slurm("22.05.8"), ON, "error", "Slurm 22.05.8 has no limits to plan with"),
        (Slurm("22.05.8"), Config(), "ok", "off"),
    ],
)
def test_release_and_option_are_looked_at(slurm, config, state, word):
    ((found, message),) = said(slurm, config)
    assert (found, word in message) == (state, True)


def tried(slurm):
    return said(slurm, check=lambda one: limits_for_real(one, pause=lambda _: None))


@pytest.mark.parametrize(
    ("delay_s", "word"), [(60, "end by its --time-min"), (600, "end by its --time, not")]
)
def test_two_jobs_show_which_half_holds(delay_s, word):
    slurm = Slurm(delay_s=delay_s)
    (planned, ended) = tried(slurm)
    assert word in planned[1]
    assert ended == ("ok", "tried: a job that outlasts its --time-min runs on")
    assert slurm.cancelled == ["7", "8"]


def test_a_job_that_its_plan_ends_is_an_error():
    assert tried(Slurm(end="TIMEOUT"))[1][0] == "error"
    assert tried(Slurm(option=""))[0][0] == "skipped"
