"""A store that is deleted or replaced under a running nimod: status and doctor say so."""

from types import SimpleNamespace

from sacct_ingest.store import Store
from slurm_plugin.cli.nimo import main
from slurm_plugin.config.loader import load
from slurm_plugin.doctor import nimo_checks
from tests.processes import wait_until


def said(running, capsys):
    """What `nimo status` says, without its line breaks."""
    assert main(["status", "--config", str(running.folder / "nimo.yaml")]) == 0
    return " ".join(capsys.readouterr().out.split())


def matches(running):
    """What `nimo doctor` says of nimod."""
    settings = load(running.folder / "nimo.yaml")
    installation = SimpleNamespace(settings=settings)
    return "\n".join(one.message for one in nimo_checks.nimod(installation))


def test_a_deleted_store_is_named(running, capsys):
    for path in running.folder.glob("nimo.db*"):
        path.unlink()
    wait_until(lambda: running.status().store_trouble != "", what="nimod to miss its store")
    assert "nimo.db" in said(running, capsys)
    assert "nimod has no store: " in matches(running)
    running.decide()
    assert running.status().decisions_pending == 1


def test_a_replaced_store_is_named(running, capsys):
    with Store.open(f"sqlite:///{running.folder}/other.db") as store:
        store.fits.replace([])
    for path in running.folder.glob("nimo.db-*"):
        path.unlink()
    assert "another" not in said(running, capsys)
    (running.folder / "other.db").replace(running.folder / "nimo.db")
    wait_until(lambda: running.status().store_changed_s is not None, what="nimod to look")
    assert "another store has been in its place since" in said(running, capsys)
    assert "another store replaced the one that nimod uses" in matches(running)
    running.decide()
    wait_until(running.decisions, what="the decision in the new store")
