"""What the pages tell to type is typed, on the demo's store."""

import shlex
import time
from random import Random

import pytest

from slurm_plugin.cli.nimo import main
from slurm_plugin.demo.sandbox import HISTORY, DemoSite, prepare
from slurm_plugin.slurm.job_request import user_name
from tests.docs.pages import command_lines

pytestmark = pytest.mark.long
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


@pytest.fixture(scope="module")
def made_up(tmp_path_factory):
    """The demo's folder, its history read and learned from."""
    folder = tmp_path_factory.mktemp("typed") / "demo"
    site = DemoSite(folder, folder / "nimod.sock")
    prepare(site, user=user_name(), now_s=time.time(), rng=Random(1))
    reported = ("--config", str(site.config))
    assert main(["ingest", *reported, str(folder / HISTORY)]) == 0
    assert main(["fit", *reported]) == 0
    return site


@pytest.fixture(autouse=True)
def in_its_folder(made_up, monkeypatch):
    monkeypatch.chdir(made_up.folder.parent)
    monkeypatch.setenv("NIMO_CONFIG", str(made_up.config))
    return made_up.folder.parent


@pytest.mark.parametrize("line", TYPED)
def test_commands_that_look_at_the_store_end_well(line, capsys):
    status = main(shlex.split(line)[1:])
    reported = capsys.readouterr()
    assert status == 0, reported.err
    assert reported.out or {"--html", "--check"} & set(line.split())


def test_there_are_enough_of_them():
    assert {"predict", "report", "replay"} <= {line.split()[1] for line in TYPED}
