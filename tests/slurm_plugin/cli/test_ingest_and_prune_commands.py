import json
import lzma
import os
import subprocess
import sys

import pytest

from sacct_ingest.store import RejectRow, Store
from slurm_plugin.cli.nimo import main
from slurm_plugin.demo.sandbox import HISTORY
from tests.processes import LONGEST_WAIT_S
from tests.sacct_ingest.sources.json_jobs import new_job

HEADER = "JobID|Cluster|User|State|Submit|Start|End|ElapsedRaw|NNodes|SubmitLine|JobName\n"
ROW = "{id}|pine|ada|COMPLETED|1790000000|1790000010|1790000110|100|{n}|sbatch -N {n} a.sh|a\n"


def saved(folder, *rows):
    path = folder / "jobs.txt"
    path.write_text(HEADER + "".join(rows))
    return str(path)


def ingest(store, *arguments):
    return main(["ingest", "--store", str(store), *arguments])


def test_summary_in_words_and_a_second_time_nothing_is_new(tmp_path, capsys):
    path = saved(tmp_path, ROW.format(id=1, n=2), ROW.format(id=2, n=4))
    assert ingest(tmp_path / "nimo.db", path) == 0
    assert capsys.readouterr().out == (
        f"{path}: 2 rows read; runs: 2 new, 0 changed, 0 stored before\n"
    )
    assert ingest(tmp_path / "nimo.db", path) == 0
    assert "0 new, 0 changed, 2 stored before" in capsys.readouterr().out


def test_json_has_one_object_a_source(tmp_path, capsys):
    path = saved(tmp_path, ROW.format(id=1, n=2))
    assert ingest(tmp_path / "nimo.db", "--json", path, path) == 0
    first, second = json.loads(capsys.readouterr().out)
    assert (first["source"], first["new"], first["same"]) == (path, 1, 0)
    assert (second["new"], second["same"]) == (0, 1)


def test_refused_rows_are_counted_shown_and_retained(tmp_path, capsys):
    path = saved(tmp_path, ROW.format(id=1, n=2), ROW.format(id="nonsense", n=2))
    assert ingest(tmp_path / "nimo.db", path) == 0
    out = capsys.readouterr().out
    assert "1 new" in out
    assert "1 row refused (text is in the store)" in out
    assert "nonsense" in out.splitlines()[-1]
    with Store.open(str(tmp_path / "nimo.db"), create=False) as store:
        assert ["nonsense" in row.text for row in store.rejects.all()] == [True]


def test_a_file_of_which_nothing_can_be_read_is_an_error(tmp_path, capsys):
    path = tmp_path / "notes.txt"
    path.write_text("this is no log\nat all\n")
    assert ingest(tmp_path / "nimo.db", "--format", "swf", str(path)) == 65
    out, err = capsys.readouterr()
    assert "2 rows refused" in out
    assert err == f"nimo: {path}: no row could be read: check --format\n"


def test_a_file_that_cannot_be_read_does_not_keep_the_others_from_it(tmp_path, capsys, caplog):
    path = saved(tmp_path, ROW.format(id=1, n=2))
    missing = str(tmp_path / "missing")
    assert ingest(tmp_path / "nimo.db", missing, path, str(tmp_path)) == 65
    out, err = capsys.readouterr()
    assert f"{path}: 1 row read; runs: 1 new" in out
    assert f"nimo: {missing}: No such file" in err
    assert "Is a directory" in caplog.text


def test_the_name_of_a_file_may_be_any_bytes(tmp_path, capsys):
    path = tmp_path / os.fsdecode(b"jobs-\xff")
    path.write_text(HEADER + ROW.format(id=1, n=2) + ROW.format(id="nonsense", n=2))
    assert ingest(tmp_path / "nimo.db", str(path)) == 0
    assert "jobs-\ufffd: 2 rows read; runs: 1 new" in capsys.readouterr().out
    with Store.open(str(tmp_path / "nimo.db"), create=False) as store:
        assert [row.source for row in store.rejects.all()] == [f"{tmp_path}/jobs-\ufffd"]


@pytest.mark.parametrize(
    ("arguments", "reported"),
    [
        (("--since", "2999-01-01"), "before"),
        (("--since", "2024-02-01", "--until", "2024-01-01"), "before 2024-01-01"),
        (("--since", "2024-02-01", "jobs.txt"), "files are read whole"),
    ],
)
def test_a_span_of_which_nothing_can_be_read(tmp_path, arguments, reported, capsys):
    assert ingest(tmp_path / "nimo.db", *arguments) == 78
    assert reported in capsys.readouterr().err
    assert not (tmp_path / "nimo.db").exists()


def test_a_compressed_file_is_read_as_it_is(tmp_path, capsys):
    path = tmp_path / "jobs.xz"
    path.write_bytes(lzma.compress((HEADER + ROW.format(id=1, n=2)).encode()))
    assert ingest(tmp_path / "nimo.db", str(path)) == 0
    assert "1 new" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["", "not|what|sacct|prints\n1|2|3|4\n"])
def test_a_file_that_is_no_accounting_is_one_line_and_a_status(text, tmp_path, capsys):
    path = tmp_path / "jobs.txt"
    path.write_text(text)
    assert ingest(tmp_path / "nimo.db", str(path)) == 65
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"nimo: {path}: ")
    assert err.count("\n") == 1


def test_without_sacct_there_is_one_line(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert ingest(tmp_path / "nimo.db") == 1
    assert capsys.readouterr().err.startswith("nimo: cannot run sacct: ")


def test_the_made_up_history_is_read_whole(learned, tmp_path, capsys):
    assert ingest(tmp_path / "nimo.db", "--json", str(learned.folder / HISTORY)) == 0
    (done,) = json.loads(capsys.readouterr().out)
    rows = (learned.folder / HISTORY).read_text().count("\n") - 1
    assert done["read"] == rows
    assert done["new"] * 3 == rows  # each job has two steps
    assert done["refused"] == done["unfinished"] == 0


def test_a_time_that_is_none_is_wrong_usage(tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        ingest(tmp_path / "nimo.db", "-S", "whenever")
    assert ended.value.code == 2
    assert "whenever" in capsys.readouterr().err


def test_json_and_archive_logs_are_recognised(tmp_path, capsys):
    (tmp_path / "jobs").write_text(json.dumps({"jobs": [new_job()]}))
    (tmp_path / "log").write_text(
        "; Computer: oak\n3 100 20 60 8 -1 -1 8 -1 -1 1 7 4 12 2 1 -1 -1\n"
    )
    assert ingest(tmp_path / "nimo.db", str(tmp_path / "jobs"), str(tmp_path / "log")) == 0
    assert capsys.readouterr().out.count("1 new") == 2


def test_columns_and_delimiter_may_be_given(tmp_path, capsys):
    path = tmp_path / "jobs.csv"
    path.write_text("5,x,FAILED,1700000050\n")
    options = ("-M", "oak", "-o", "JobID,-,State,Submit", "--delimiter", ",")
    assert ingest(tmp_path / "nimo.db", *options, str(path)) == 0
    assert "1 new" in capsys.readouterr().out


def test_a_format_that_does_not_fit_is_reported(tmp_path, capsys):
    path = saved(tmp_path, ROW.format(id=1, n=2))
    assert ingest(tmp_path / "nimo.db", "--format", "json", path) == 65
    assert "not Slurm's JSON" in capsys.readouterr().err


def test_pyslurm_is_asked_only_where_it_is(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyslurm", None)
    assert ingest(tmp_path / "nimo.db", "--source", "pyslurm") == 1
    assert "use sacct" in capsys.readouterr().err


SWALLOWED = """
import os, signal, sys
from slurm_plugin.cli.commands import ingest
from slurm_plugin.cli.nimo import main

class Last:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)

ingest._once = lambda *_: Last() and 0
sys.exit(main(["ingest", "--follow", "--every", "0.001", "--store", sys.argv[1]]))
"""


def test_an_end_that_came_in_a_finalizer_is_not_forgotten(tmp_path):
    argv = [sys.executable, "-c", SWALLOWED, str(tmp_path / "nimo.db")]
    ended = subprocess.run(
        argv, capture_output=True, text=True, timeout=LONGEST_WAIT_S, check=False
    )
    assert (ended.returncode, "Exception ignored" in ended.stderr) == (0, True)


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
