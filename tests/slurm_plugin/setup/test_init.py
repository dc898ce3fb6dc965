"""`nimo init` and `nimo hook-path --install`, with a Slurm whose answers are files."""

import doctest
import io
import json
import os
import pty
import subprocess
import sys

import pytest

from slurm_plugin.cli.nimo import main
from slurm_plugin.config.loader import load, parse
from slurm_plugin.config.setting_types import Mode
from slurm_plugin.config.settings import Config, JobNames
from slurm_plugin.config.settings_file import ETC, HOOKS
from slurm_plugin.doctor import installation
from slurm_plugin.setup import Answers, answers, install
from slurm_plugin.setup.answers import settings_text
from slurm_plugin.setup.hooks import BUNDLES, VERSIONS, compile_hooks, compiler_of
from tests.processes import LONGEST_WAIT_S

SAMPLE = (ETC / "nimo.yaml").read_text()
CODE = "import sys; from slurm_plugin.cli.nimo import main; sys.exit(main(sys.argv[1:]))"
SCONTROL = """\
#!/bin/sh
case "$*" in
  "show config") cat <<END
Configuration data as of 1700000000
ClusterName             = pine
SLURM_CONF              = {etc}/slurm.conf
SLURM_VERSION           = 24.11.5
JobSubmitPlugins        = all_partitions
CliFilterPlugins        = (null)
AccountingStoreFlags    = job_script
JobAcctGatherType       = jobacct_gather/cgroup
PrivateData             = jobs
END
  ;;
  *partition) echo "PartitionName=batch AllowGroups=ALL"; echo "PartitionName=debug" ;;
esac
"""
SACCTMGR = """\
#!/bin/sh
echo "SlurmDBD configuration:"
echo "PurgeJobAfter          = 30 days"
"""


class Machine:
    """A machine with Slurm's commands and a folder for slurm.conf."""

    def __init__(self, folder):
        self.etc, self.config = folder / "slurm", folder / "nimo" / "nimo.yaml"
        self.hook_conf = self.etc / "nimo_hook.conf"
        self.etc.mkdir()
        (self.etc / "slurm.conf").touch()
        (folder / "bin").mkdir()
        for name, text in {"scontrol": SCONTROL, "sacctmgr": SACCTMGR}.items():
            (folder / "bin" / name).write_text(text.format(etc=self.etc))
            (folder / "bin" / name).chmod(0o755)

    def init(self, *words):
        return main(["init", "--config", str(self.config), *words])


@pytest.fixture
def machine(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    return Machine(tmp_path)


def test_a_login_node_gets_the_controllers_and_no_store(machine, monkeypatch, capsys):
    scontrol = machine.etc.parent / "bin" / "scontrol"
    hosts = "SlurmctldHost[0]        = ctl1(10.0.0.1)\nSlurmctldHost[1]        = ctl2\n"
    scontrol.write_text(scontrol.read_text().replace("SLURM_VERSION", f"{hosts}SLURM_VERSION"))
    assert machine.init("--login-node", "--json") == 0
    made, steps = load(machine.config), json.loads(capsys.readouterr().out)["next"]
    assert (made.relay.controllers, made.store) == (("10.0.0.1", "ctl2"), "")
    assert "systemctl enable --now nimo-relay" in steps
    assert any("relay.listen" in step for step in steps)
    assert not any("ingest" in step or "nimod nimo" in step for step in steps)


def test_the_controllers_of_a_login_node_can_be_named(machine, capsys):
    assert machine.init("--login-node") == 78  # scontrol names none
    assert "--login-node HOST" in capsys.readouterr().err
    assert machine.init("--login-node", "ctl1,ctl2:7000") == 0
    assert load(machine.config).relay.controllers == ("ctl1", "ctl2:7000")


def test_what_slurm_says_is_written_down_and_the_rest_is_reported(machine, capsys):
    assert machine.init("--json") == 0
    reported = json.loads(capsys.readouterr().out)
    made = load(machine.config)
    assert (made.cluster, made.mode, made.rules) == ("pine", Mode.OBSERVE, ())
    assert made.store == "sqlite:////var/lib/nimo/nimo.db"
    assert made.ingest.first_days == 30  # slurmdbd has no more
    assert reported["slurm"]["partitions"] == "batch debug"
    assert reported["files"] == {str(machine.config): "new", str(machine.hook_conf): "new"}
    assert reported["slurm_conf"] == [
        "JobSubmitPlugins=all_partitions,lua",
        "CliFilterPlugins=lua",
        "AccountingStoreFlags=job_script,job_comment",
    ]
    assert "sacctmgr add user nimo account=root adminlevel=operator" in reported["next"]
    assert f"nimo hook-path --install {machine.etc}" in reported["next"]
    assert "forward_deadline = no" in machine.hook_conf.read_text()


def test_options_answer(machine):
    words = ["-M", "oak", "--store", "postgresql+psycopg://nimo@db/nimo", "--mode", "advise"]
    assert machine.init(*words, "-p", "batch,debug", "--socket", "/srv/nimod.sock", "--hooks") == 0
    made = load(machine.config)
    assert (made.cluster, made.store) == ("oak", "postgresql+psycopg://nimo@db/nimo")
    assert made.for_job(JobNames("debug")).mode is Mode.ADVISE
    assert made.for_job(JobNames("long")).mode is Mode.OFF
    assert "socket = /srv/nimod.sock\n" in machine.hook_conf.read_text()
    assert (machine.etc / "job_submit.lua").exists()


def test_a_second_run_leaves_one_socket_in_both_files(machine):
    assert machine.init("--socket", "/srv/nimod.sock") == 0
    machine.hook_conf.unlink()
    assert machine.init("--socket", "/srv/other.sock") != 0
    assert machine.init() == 0
    assert load(machine.config).socket == "/srv/nimod.sock"
    assert "socket = /srv/nimod.sock\n" in machine.hook_conf.read_text()


def test_deadlines_are_forwarded_only_where_job_submit_runs(machine, capsys):
    """Otherwise users would see the forwarded deadlines in their comments."""
    assert machine.init("--hooks") == 0
    assert "forward_deadline = no\n" in machine.hook_conf.read_text()
    assert (
        f"(forward_deadline|look_at_inputs) = no/\\1 = yes/' {machine.hook_conf}"
        in capsys.readouterr().out
    )
    machine.hook_conf.unlink()
    scontrol = machine.etc.parent / "bin" / "scontrol"
    scontrol.write_text(scontrol.read_text().replace("= all_partitions", "= lua"))
    assert machine.init() == 0
    assert "forward_deadline = yes\n" in machine.hook_conf.read_text()
    assert "forward_deadline = yes/'" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("mode", "ahead"), [(Mode.OBSERVE, "no"), (Mode.ADVISE, "yes"), (Mode.ENFORCE, "yes")]
)
def test_commands_ask_ahead_where_slurmctld_would_wait(mode, ahead):
    sample = (ETC / "nimo_hook.conf").read_text()
    made = answers.hook_settings(sample, Answers(mode=mode), forward_deadline=True)
    assert f"\nask_ahead = {ahead}\n" in made
    # Without job_submit.lua nobody takes the ticket out of the comment again.
    assert answers.hook_settings(sample, Answers(mode=mode), forward_deadline=False) == sample


def test_only_what_was_asked_differs_from_the_sample():
    assert parse(settings_text(SAMPLE, Answers()), name="made") == parse(SAMPLE, name="sample")
    made = settings_text(SAMPLE, Answers(cluster="a: # b", first_days=7))
    assert made.count("#") == SAMPLE.count("#") + 1
    assert parse(made, name="made").cluster == "a: # b"


def test_what_somebody_wrote_stays(machine, capsys):
    machine.config.parent.mkdir()
    machine.config.write_text("mode: enforce\n")
    machine.hook_conf.write_text("timeout_ms = 5\n")
    assert machine.init() == 0
    assert machine.config.read_text() == "mode: enforce\n"
    assert machine.hook_conf.read_text() == "timeout_ms = 5\n"
    reported = capsys.readouterr().out
    assert f"untouched  {machine.config}" in reported
    assert "see the differences: nimo init --dry-run" in reported


def test_a_file_as_it_was_shipped_is_filled_in_and_then_stays(machine, capsys):
    machine.config.parent.mkdir()
    machine.config.write_text(SAMPLE)
    assert machine.init() == 0
    assert load(machine.config).cluster == "pine"
    assert machine.init() == 0
    first, second = capsys.readouterr().out.split("Settings:\n")[1:]
    assert first.startswith(f"  filled in  {machine.config}")
    assert second.startswith(f"  same       {machine.config}")


def test_a_dry_run_prints_a_diff_that_patch_takes_and_writes_nothing(machine, capsys):
    assert machine.init("--dry-run") == 0
    assert not machine.config.exists()
    assert not machine.hook_conf.exists()
    difference = capsys.readouterr().out
    assert difference.startswith(f"--- /dev/null\n+++ {machine.config}\n@@ ")
    assert machine.init("--dry-run", "--json") == 0
    reported = json.loads(capsys.readouterr().out)
    assert "".join(file["difference"] for file in reported) == difference
    assert [file["path"] for file in reported] == [str(machine.config), str(machine.hook_conf)]
    machine.config.parent.mkdir()
    machine.config.write_text(SAMPLE)
    assert machine.init("--dry-run", "-p", "batch") == 0
    difference = capsys.readouterr().out
    assert '-cluster: ""\n+cluster: "pine"\n' in difference
    assert '+rules:\n+  - {partition: ["batch"], mode: observe}\n' in difference


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["-p", "bacth"], "Slurm has no partition 'bacth'; did you mean 'batch'?"),
        (["--store", "mysql+pymysql://nimo:secret@db/nimo"], "?read_default_file="),
        (["--socket", "nimod.sock"], "beginning with /"),
    ],
)
def test_wrong_answers_name_the_fix(machine, capsys, words, complaint):
    assert machine.init(*words) == 78
    out, err = capsys.readouterr()
    assert out == ""
    assert complaint in err
    assert not machine.config.exists()


def test_on_a_terminal_it_asks_and_asks_again(machine):
    """Answers: the proposed store, a mode that is none, a right one, one partition."""
    ours, theirs = pty.openpty()
    os.write(ours, b"\nnone\nadvise\ndebug\n")
    done = subprocess.run(
        [sys.executable, "-c", CODE, "init", "--config", machine.config],
        stdin=theirs,
        capture_output=True,
        text=True,
        check=False,
        timeout=LONGEST_WAIT_S,
    )
    os.close(theirs)
    os.close(ours)
    assert done.returncode == 0, done.stderr
    assert "'none' is not a valid Mode" in done.stderr
    made = load(machine.config)
    assert made.mode is Mode.OFF
    assert [(rule.partition, rule.mode) for rule in made.rules] == [(("debug",), Mode.ADVISE)]


def test_without_slurm_it_proposes_what_is_built_in(machine, capsys, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("SLURM_CONF", "/nowhere/slurm.conf")
    assert machine.init() == 0
    out, err = capsys.readouterr()
    assert "Slurm did not answer: scontrol: not found on PATH" in err
    assert load(machine.config) == Config(store="sqlite:////var/lib/nimo/nimo.db")
    assert "nimo_hook.conf" not in out
    assert "forward_deadline" not in out
    assert "scontrol reconfigure" not in out


def test_where_it_must_not_write_it_says_so(machine, capsys):
    machine.config.parent.touch()  # a file where the folder should be
    assert machine.init() == 78
    assert f"{machine.config}: cannot be written: " in capsys.readouterr().err


def test_the_examples_hold():
    assert [doctest.testmod(module).failed for module in (answers, installation)] == [0, 0]


def test_hooks_replace_older_ones_with_job_submit_last(tmp_path):
    versions = [version for version in VERSIONS if compiler_of(version)]
    sources = sorted(path.name for path in HOOKS.glob("*.lua"))
    names = sorted([*sources, *(f"{name}.lua{one}" for name in BUNDLES for one in versions)])
    written = install(tmp_path)
    assert sorted(path.name for path in written) == names
    assert written[-1].name == "job_submit.lua"
    assert install(tmp_path) == []
    hook = tmp_path / "job_submit.lua"
    os.utime(hook, (1, 1))
    (tmp_path / "nimo_json.lua").write_text("-- of an older release")
    compile_hooks(tmp_path)
    copies = ["nimo_prepare.lua" + version for version in versions]  # nimo_json is part of it
    again = [path.name for path in install(tmp_path)]
    assert again == ["nimo_json.lua", *copies, "job_submit.lua"]
    assert hook.stat().st_mtime > 1  # slurmctld loads all anew
    assert sorted(path.name for path in tmp_path.iterdir()) == names


def test_a_hook_of_the_sites_own_stays_and_ours_is_put_beside_it(tmp_path, capsys):
    own, ours = tmp_path / "job_submit.lua", tmp_path / "nimo_job_submit.lua"
    own.write_text("function slurm_job_submit() return slurm.SUCCESS end\n")
    before = own.read_text()
    os.utime(own, (1, 1))
    assert main(["hook-path", "--install", str(tmp_path)]) == 0
    assert str(ours) in capsys.readouterr().out.splitlines()
    assert own.read_text() == before
    assert own.stat().st_mtime > 1  # slurmctld loads what it calls
    assert ours.read_bytes() == (HOOKS / "job_submit.lua").read_bytes()
    assert main(["hook-path", "--install", str(tmp_path)]) == 0
    assert capsys.readouterr().out == ""


def test_hooks_do_not_go_where_no_slurm_conf_can_be(tmp_path, capsys):
    assert main(["hook-path", "--install", str(tmp_path / "slrum")]) == 78
    assert "the hooks go where slurm.conf is" in capsys.readouterr().err
