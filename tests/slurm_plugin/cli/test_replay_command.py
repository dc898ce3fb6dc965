"""``nimo replay`` from a store and from a file."""

import json

import pytest

from sacct_ingest.store import Store
from slurm_plugin.cli.nimo import main
from tests.sacct_ingest.records import SUBMIT_S
from tests.sacct_ingest.records import run as job


def fill(path, count=200):
    """Store jobs of one application that scales, on 1, 2, 4 and 8 nodes."""
    with Store.open(str(path)) as store:
        store.runs.add(
            job(
                job_id=number,
                submit_s=SUBMIT_S + 1200 * number,
                start_s=SUBMIT_S + 1200 * number,
                end_s=SUBMIT_S + 1200 * number + 28_800 // 2 ** (number % 4),
                elapsed_s=28_800 / 2 ** (number % 4),
                limit_s=40_000,
                nodes=2 ** (number % 4),
                submit_line="sbatch wrf.sh",
            )
            for number in range(count)
        )


def test_the_later_half_is_replayed(tmp_path, capsys):
    fill(tmp_path / "nimo.db")
    argv = ["replay", "--store", str(tmp_path / "nimo.db"), "-N", "40", "--workers", "1"]
    assert main([*argv, "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    (result,) = made["results"]
    assert result["jobs"] == result["moldable_jobs"] == 100
    assert made["nodes"] == 40
    assert made["verdict"].startswith("Switching NIMO on would")
    assert main(argv) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "100 jobs over 33 h on 40 nodes at load " in shown
    assert "100 of them moldable (the store)" in shown
    assert f"the load is {made['load']:.2f}" in shown
    assert made["verdict"][:40] in shown


def test_a_search_tries_all_combinations_in_processes(tmp_path, capsys):
    fill(tmp_path / "nimo.db", 80)
    argv = ["replay", "--store", str(tmp_path / "nimo.db"), "--workers", "2", "-P"]
    assert main([*argv, "--price", "4", "--price", "8", "--guard", "1.1", "--load", "0.6"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("load|price|guard|")
    assert [line.split("|")[:3] for line in lines[1:]] == [["0.6", "4", "1.1"], ["0.6", "8", "1.1"]]


def test_both_ways_to_treat_bystanders_are_tried(tmp_path, capsys):
    fill(tmp_path / "nimo.db", 80)
    argv = ["replay", "--store", str(tmp_path / "nimo.db"), "--workers", "1", "--json"]
    assert main([*argv, "--bystanders", "group", "--bystanders", "each"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert [one["setting"]["policy"]["bystanders"] for one in made["results"]] == ["group", "each"]
    assert made["present"]["bystanders"] == "group"


def test_a_saved_log_without_curves_is_replayed_on_assumptions(tmp_path, capsys):
    saved = tmp_path / "jobs.txt"
    rows = ["JobID|User|JobName|Submit|Start|End|ElapsedRaw|TimelimitRaw|NNodes|State"]
    rows += [
        f"{n}|ada|x|{SUBMIT_S + 60 * n}|{SUBMIT_S + 60 * n}|{SUBMIT_S + 60 * n + 600}|600|30|2"
        "|COMPLETED"
        for n in range(1, 50)
    ]
    saved.write_text("\n".join(rows) + "\n")
    assert main(["replay", "-M", "pine", "--assume", "1", "-P", str(saved)]) == 0
    assert main(["replay", "-M", "pine", "--assume", "1", str(saved)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "So NIMO assumes: 100% of the jobs" in shown


def test_nodes_of_the_cluster_are_those_of_the_logs_header(tmp_path, capsys):
    log = tmp_path / "log.swf"
    jobs = [f"{n} {60 * n} 0 600 4 -1 -1 4 1200 -1 1 1 1 1 1 1 -1 -1" for n in range(1, 40)]
    log.write_text("\n".join(["; MaxProcs: 64", *jobs]) + "\n")

    def nodes(*more):
        assert main(["replay", "-M", "lab", "--assume", "0.5", "--json", *more, str(log)]) == 0
        return int(json.loads(capsys.readouterr().out)["nodes"])

    assert nodes() == 64
    assert nodes("--nodes", "32") == 32


def test_nothing_to_replay_is_said(tmp_path, capsys):
    Store.open(str(tmp_path / "nimo.db")).close()
    assert main(["replay", "--store", str(tmp_path / "nimo.db")]) != 0
    assert "holds no job that ran" in capsys.readouterr().err


@pytest.mark.parametrize(("option", "value"), [("--assume", "1.5"), ("--load", "0")])
def test_wrong_numbers_are_usage_errors(option, value, capsys):
    with pytest.raises(SystemExit):
        main(["replay", option, value])
    assert value in capsys.readouterr().err


def test_limits_to_plan_with_are_suggested_where_they_make_waits_shorter(tmp_path, capsys):
    """Two users in turn: long jobs on all nodes but one, and short ones that ask for hours."""
    shapes = ((3, 3600, 4000), (4, 3600, 4000), (1, 600, 7200))
    with Store.open(str(tmp_path / "nimo.db")) as store:
        store.runs.add(
            job(
                job_id=number,
                user=("ada", "bob", "cyd")[number % 3],
                name=("wide", "all", "small")[number % 3],
                submit_s=SUBMIT_S + 3000 * (number // 3) + number % 3,
                start_s=SUBMIT_S + 3000 * (number // 3) + number % 3,
                end_s=SUBMIT_S + 3000 * (number // 3) + number % 3 + shapes[number % 3][1],
                elapsed_s=float(shapes[number % 3][1]),
                limit_s=shapes[number % 3][2],
                nodes=shapes[number % 3][0],
                node_list="",
            )
            for number in range(120)
        )
    argv = ["replay", "--limits", "--store", str(tmp_path / "nimo.db"), "-N", "4"]
    assert main([*argv, "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    ways = {(one["method"], one["quantile"]): one for one in made["figures"]}
    assert (made["jobs"], ways["user", None]["wait"]) == (120, 1.0)
    assert ways["perfect", None]["wait"] < 0.97
    assert min(w["wait"] for (name, _), w in ways.items() if name == "nimo") < 0.97
    assert made["outlasted_share"] is not None
    assert main(argv) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("Suggested: time_limit: {soft: on, outlasted_share: ")
    title = next(number for number, line in enumerate(lines) if "slower x2" in line)
    assert title == lines.index("") + 1
    assert lines[title + 1].split()[:4] == ["user", "-", "1.00", "1.00"]
    assert main([*argv, "-P", "-o", "method,quantile,wait,users_worse"]) == 0
    rows = [line.split("|") for line in capsys.readouterr().out.splitlines()]
    assert rows[:2] == [["planned by", "quantile", "wait", "worse off"], ["user", "", "1", "0"]]
