import json

import pytest

from sacct_ingest.store import RejectRow, Store
from slurm_plugin.cli.nimo import main


def test_counts_first_and_deletes_then(tmp_path, capsys):
    path = str(tmp_path / "nimo.db")
    with Store.open(path) as store:
        store.rejects.add([RejectRow(source="f", reason="odd", text="x", read_s=5)])
    assert main(["prune", "--store", path, "--dry-run"]) == 0
    assert "rejects: 1 row from before" in (reported := capsys.readouterr().out)
    assert "would be deleted" in reported
    assert main(["prune", "--store", path, "--json"]) == 0
    (done,) = json.loads(capsys.readouterr().out)
    assert (done["table"], done["rows"]) == ("rejects", 1)
    assert main(["prune", "--store", path, "--rejects", "0"]) == 0
    assert "nothing is deleted" in capsys.readouterr().out


def test_days_are_counted_from_0_on(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["prune", "--runs", "-4"])
    assert ended.value.code == 2


def test_what_the_next_ingest_would_bring_back_is_not_pruned(tmp_path, capsys):
    path = str(tmp_path / "nimo.db")
    Store.open(path).close()
    assert main(["prune", "--store", path, "--runs", "14"]) == 78
    assert "keep more than 14 days" in capsys.readouterr().err
