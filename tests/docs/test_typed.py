"""What the pages tell to type is typed, on the demo's store."""

import shlex

import pytest

from slurm_plugin.cli.nimo import main
from tests.docs.pages import command_lines
from tests.slurm_plugin.cli import conftest as demo
from tests.slurm_plugin.cli.test_replay_command import fill

pytestmark = pytest.mark.long
learned = demo.learned
#: Commands that only look at the store.
LOOKING = ("predict", "report", "replay", "prune --dry-run", "config", "hook-path")
#: Not on every machine.
ELSEWHERE = ("/etc/", "/var/", "--install", "FILE", ".gz", "--on ", "NAME")
#: Worker processes are started for several settings, or all jobs are replayed several times.
SLOW = ("--dask", "--suggest", "--load", "--limits")
TYPED = sorted(
    {
        shown.text.replace("APPLICATION", "wrf-d02")
        for shown in command_lines()
        if shown.page != "gallery.md"  # which has its own test
        and shown.text.removeprefix("nimo ").startswith(LOOKING)
        and not any(word in shown.text for word in (*ELSEWHERE, *SLOW))
    }
)


@pytest.fixture(autouse=True)
def in_its_folder(learned, monkeypatch):
    monkeypatch.chdir(learned.folder.parent)
    monkeypatch.setenv("NIMO_CONFIG", str(learned.config))


@pytest.mark.parametrize("line", TYPED)
def test_commands_that_look_at_the_store_end_well(line, capsys, monkeypatch, tmp_path):
    if line.startswith("nimo replay"):  # of two hundred jobs: the demo's take half a minute each
        fill(tmp_path / "nimo.db")
        config = tmp_path / "nimo.yaml"
        config.write_text(f"store: sqlite:///{tmp_path / 'nimo.db'}\n")
        monkeypatch.setenv("NIMO_CONFIG", str(config))
    status = main(shlex.split(line)[1:])
    reported = capsys.readouterr()
    assert status == 0, reported.err
    assert reported.out or {"--html", "--check"} & set(line.split())


def test_there_are_enough_of_them():
    assert {"predict", "report", "replay"} <= {line.split()[1] for line in TYPED}
