import json
import os
import re
import subprocess
import sys

import pytest

from sacct_ingest.errors import SlurmError
from slurm_plugin.cli.advice_requests import seen_from_here
from slurm_plugin.cli.advise import main
from slurm_plugin.protocol.advice_messages import Advice, PartitionRow

#: On a busy machine nimod may take longer than users would wait for.
CALL = "import sys; from slurm_plugin.cli import advice_requests, advise\n"
CALL += "advice_requests.TIMEOUT_S = 120.0\n"
CALL += "code = advise.main(sys.argv[1:])\n"


def python(site, code, *words):
    """Run the whole process, as a shell script would."""
    return subprocess.run(
        [sys.executable, "-c", code, *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=site.folder,
        env=os.environ | {"NIMO_CONFIG": str(site.config)},
    )


def advise(site, *words, user="ada"):
    return python(site, f"{CALL}sys.exit(code)", "--user", user, *words)


def test_a_recorded_job_gets_a_table_and_a_line_to_paste(nimod):
    done = advise(nimod, "wrf.sh", "d02")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    nodes, limit = done.stdout.partition("\n\n")[0].splitlines()[-2:]  # the answer may be wrapped
    assert nodes.startswith("#SBATCH --nodes=")
    assert limit.startswith("#SBATCH --time=")
    assert done.stdout.count("◆") == 1
    assert "wait" in done.stdout


def test_a_typed_option_is_named_that_outranks_the_lines(nimod):
    done = advise(nimod, "-N", "2-6", "wrf.sh", "d02")
    assert "\n--nodes of the command line outranks" in done.stdout


def pasted_deadline_s(nimod, monkeypatch, zone):
    """The deadline to paste of an advice in a time zone, seconds since the epoch."""
    monkeypatch.setenv("TZ", zone)
    date = ["date", "-d", "10 minutes", "+%Y-%m-%dT%H:%M:%S"]
    end = subprocess.check_output(date, text=True).strip()
    done = advise(nimod, f"--deadline={end}", "wrf.sh", "d02")
    assert done.returncode == 4, done.stderr
    said = " ".join(done.stdout.split())
    assert f"its deadline, {end[5:].replace('T', ' ')}" in said
    (line,) = re.findall(r"--deadline=(\S+) \(", said)
    return int(subprocess.check_output(["date", "-d", line, "+%s"]))


@pytest.mark.parametrize("zone", ["Asia/Kolkata", "<+13>-13"])
def test_moments_are_in_the_time_zone_of_who_asks(nimod, monkeypatch, zone):
    for _ in range(5):  # until the queue does not change meanwhile
        zones = ("UTC", zone, "UTC")
        before_s, there_s, after_s = (pasted_deadline_s(nimod, monkeypatch, one) for one in zones)
        if abs(before_s - after_s) < 600:
            break
    assert abs(before_s - there_s) < 3600


def test_the_recommended_count_is_one_the_job_asks_for(nimod):
    answer = json.loads(advise(nimod, "--json", "-N", "2-6", "wrf.sh", "d02").stdout)
    assert 2 <= answer["nodes"] <= 6
    assert answer["directive"] == f"#SBATCH --nodes={answer['nodes']}"


def test_all_shows_more_than_the_selection(nimod):
    few, every = advise(nimod, "wrf.sh", "d02"), advise(nimod, "--all", "wrf.sh", "d02")
    assert len(every.stdout.splitlines()) > len(few.stdout.splitlines()) + 8


def test_many_requests_are_answered_a_line_each(learned, capsys, monkeypatch):
    monkeypatch.chdir(learned.folder)
    asked = [
        '{"id": 7, "argv": ["-N", "2-6", "wrf.sh", "d02"]}',
        '{"id": 8, "argv": ["--nonsense", "wrf.sh"]}',
        '{"argv": ["none.sh"]}',
        '{"id": 9, "argv": []}',
        '["wrf.sh"]',
        "{",
    ]
    monkeypatch.setattr("sys.stdin", iter(asked))
    store = ["--store", str(learned.store), "--user", "ada"]
    assert main(["--json-lines", *store]) == 0
    known, *others = map(json.loads, capsys.readouterr().out.splitlines())
    assert (known["schema"], known["id"], known["status"]) == (1, 7, 0)
    assert 2 <= known["advice"]["nodes"] <= 6
    said = ("no option --nonsense", "none.sh", "needs a job script", "JSON object", "not JSON")
    assert [one["status"] for one in others] == [66] * 5
    assert all(a in b["error"].replace("has an", "no") for a, b in zip(said, others, strict=True))
    assert [one["id"] for one in others] == [8, None, 9, None, None]


def test_lines_for_scripts(nimod):
    header, *rows = advise(nimod, "-P", "wrf.sh", "d02").stdout.splitlines()
    named = [dict(zip(header.split("|"), row.split("|"), strict=True)) for row in rows]
    assert [row["nodes"] for row in named[:3]] == ["2", "3", "4"]
    assert [row["recommended"] for row in named].count("1") == 1


def test_an_unknown_job_is_status_3_without_a_line_to_paste(nimod, tmp_path):
    script = tmp_path / "never-seen.sh"
    script.write_text("#!/bin/sh\n#SBATCH -N 1-8\nsrun ./never-seen\n")
    done = advise(nimod, str(script), user="nobody-here")
    assert done.returncode == 3
    assert "#SBATCH" not in done.stdout
    assert "NIMO has no finished run of this job yet" in done.stdout


def test_two_node_counts_are_enough_for_advice_and_the_fix_is_reported(nimod):
    done = advise(nimod, "-v", "capsid.sh")
    assert done.returncode == 0
    assert "one run on 16 nodes would make the prediction surer" in " ".join(done.stdout.split())
    assert "#SBATCH --nodes=" in done.stdout


def test_a_deadline_that_cannot_be_made_is_status_4(nimod):
    done = advise(nimod, "--deadline=now+10minutes", "wrf.sh", "d02")
    assert done.returncode == 4
    assert "not expected to make its deadline" in done.stdout
    assert advise(nimod, "--deadline=now+10hours", "wrf.sh", "d02").returncode == 0


def test_without_nimod_the_store_answers_and_says_so(use):
    config = use.folder / "no-nimod.yaml"
    config.write_text(f"store: sqlite:///{use.store}\nsocket: {use.folder}/none.sock\n")
    done = advise(use, "--config", str(config), "wrf.sh", "d02")
    assert done.returncode == 0
    assert done.stderr.startswith("nimo-advise: nimod at ")
    assert done.stderr.endswith("; reading the store instead\n")
    nodes, limit = done.stdout.partition("\n\n")[0].splitlines()[-2:]  # the answer may be wrapped
    assert nodes.startswith("#SBATCH --nodes=")
    assert limit.startswith("#SBATCH --time=")
    assert "wait" not in done.stdout


def test_a_store_can_be_named_and_gives_the_same_times(nimod):
    one = json.loads(advise(nimod, "--json", "wrf.sh", "d02").stdout)
    other = advise(nimod, "--json", "--store", str(nimod.store), "wrf.sh", "d02")
    assert other.stderr == ""
    times = {row["nodes"]: row["time_s"] for row in json.loads(other.stdout)["rows"]}
    assert {row["nodes"]: row["time_s"] for row in one["rows"]}.items() <= times.items()


def test_neither_nimod_nor_store_is_an_error(use, capsys):
    assert main(["--store", str(use.folder / "none.db"), "wrf.sh"]) == 74
    assert "no store at" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("module", "words", "shown", "more"),
    [
        ("slurm_plugin.cli.advise", ["--user", "ada", "wrf.sh", "d02"], "#SBATCH", ["msgspec"]),
        ("slurm_plugin.cli.advise", ["--user", "ada", "--plot", "wrf.sh", "d02"], "◆", []),
        ("slurm_plugin.cli.nimo", ["predict", "wrf-d02"], "run time", []),
        ("slurm_plugin.cli.nimo", ["report", "-u", "nobody"], "No decision is recorded", []),
    ],
)
def test_the_way_through_nimod_loads_nothing_heavy(nimod, module, words, shown, more):
    code = (
        f"import sys; from {module} import main; main(sys.argv[1:])\n"
        "heavy = {'sqlalchemy', 'numpy', 'scipy', 'rich', 'asyncio', 'alembic', 'yaml'}\n"
        "heavy.add('matplotlib')\n"
        f"heavy |= set({more})\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    done = python(nimod, code, *words)
    assert (done.returncode, done.stderr) == (0, "[]\n")
    assert shown in done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [(["none.sh"], "none.sh: No such file"), (["-N", "many", "wrf.sh"], "--nodes=many")],
)
def test_a_script_or_option_that_cannot_be_read_is_one_line(words, said, use, capsys):
    assert main(words) == 66
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"nimo-advise: {said}")


def test_a_binary_is_no_job_script(tmp_path, capsys):
    (tmp_path / "a.out").write_bytes(b"\x7fELF\0\0")
    assert main([str(tmp_path / "a.out")]) == 66
    assert "does not look like a batch script" in capsys.readouterr().err


def test_help_has_examples_and_all_statuses(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert "exit status:" in text
    assert all(f"\n  {status}  " in text for status in range(5))
    assert "nimo-advise job.sh" in text.split("examples:")[1]


def test_of_several_clusters_it_says_which_one_is_compared():
    advice = seen_from_here(Advice(cluster="pine"), ("oak", "pine"))
    assert advice.place_text == "NIMO here does not know the cluster oak."
    row = PartitionRow(partition="batch", cluster="oak")
    compared = seen_from_here(Advice(cluster="pine", partitions=[row]), ("oak", "pine", "elm"))
    assert compared.place_text == "NIMO here does not know the cluster elm."
    silent = Advice(cluster="pine", place_text="Not compared: the cluster oak (no answer).")
    assert seen_from_here(silent, ("oak", "pine")).place_text.count("oak") == 1
    assert not seen_from_here(Advice(cluster="pine"), ("all",)).place_text
    assert not seen_from_here(Advice(cluster="pine"), ("pine",)).place_text
    with pytest.raises(SlurmError, match="nimod here knows pine"):
        seen_from_here(Advice(cluster="pine"), ("oak",))
