"""What rules of a workflow need by their record, as their engine's profile."""

import json
import subprocess

import pytest
import yaml

from sacct_ingest.records import JobState
from sacct_ingest.store import Store
from slurm_plugin.cli.nimo import main
from tests.engine_jobs import run_of, submissions
from tests.sacct_ingest.records import SUBMIT_S, run

MIB = 1 << 20


@pytest.fixture
def store(tmp_path):
    """Eight runs of Snakemake's rule align, of 100 to 170 s and MiB, and two of Nextflow's."""
    url = tmp_path / "nimo.db"
    chosen = [one for one in submissions() if one["process"] == "align" and one["run"]]
    flow = [one for one in chosen if one["engine"] == "snakemake"]
    other = [one for one in submissions() if one["engine"] == "nextflow"] * 4
    runs = []
    for number, one in enumerate([*flow, *other[:6], *submissions()[-1:]]):
        submit_s, elapsed_s = SUBMIT_S + 1000 * number, 100.0 + 10 * number
        times = {"submit_s": submit_s, "start_s": submit_s, "end_s": submit_s + int(elapsed_s)}
        shape = {"cpus": 2, "tasks": 1, "mem_bytes": (100 + 10 * number) * MIB}
        runs.append(run_of(one, job_id=number, elapsed_s=elapsed_s, **shape, **times))
    failed = {"state": JobState.TIMEOUT, "elapsed_s": 9999.0, "job_id": 99, "submit_s": SUBMIT_S}
    with Store.open(f"sqlite:///{url}") as made:
        made.runs.add([*runs, run_of(flow[0], **failed)])
    return ["--store", str(url), "-u", "ada"]


def test_a_profile_of_snakemake(store, capsys):
    assert main(["export", "snakemake", *store]) == 0
    out, err = capsys.readouterr()
    # 95 % of them took 170 s and MiB or less: 1.2 times that is 204.
    assert yaml.safe_load(out) == {
        "set-resources": {
            "align": {"runtime": "4 * attempt", "mem_mb": "204 * attempt", "cpus_per_task": 2}
        }
    }
    assert "# 8 runs, 00:02:10 (00:01:40 to 00:02:50), to 20" in out
    assert "backtest: 0 of 3 runs short" in out
    assert err == "nimo export: left out 1 application with fewer than 5 completed runs\n"


def test_a_configuration_of_nextflow(store, capsys):
    assert main(["export", "nextflow", *store, "--quantile", "0.5", "--margin", "1"]) == 0
    out = capsys.readouterr().out
    # The longest of them took 230 s: no completed run may be cut.
    assert "withName: 'NFCORE[:_]RNASEQ[:_]ALIGN' {" in out
    first, then = "task.attempt > 1 ? task.previousTrace", "task.previousTrace.exit =="
    assert f"time = {{ {first}.time * ({then} 137 ? 1 : 2) : 4.min }}\n" in out
    assert f"memory = {{ {first}.memory * ({then} 140 ? 1 : 2) : 230.MB }}\n" in out
    assert out.count("{") == out.count("}")


#: Evaluates a configuration as Nextflow does, whose language it is, and asks it for two attempts.
GROOVY = """
Integer.metaClass.getMin = { -> delegate * 60 }
Integer.metaClass.getMB = { -> delegate * 2**20 }
def read = new ConfigSlurper().parse(System.in.text).process['NFCORE[:_]RNASEQ[:_]ALIGN']
for (exit in [137, 140]) {
    def task = [attempt: 1, previousTrace: [exit: exit, time: 240, memory: 230 * 2**20]]
    for (attempt in [1, 2]) {
        task.attempt = attempt
        def asked = [read.time, read.memory].collect {
            it.resolveStrategy = Closure.DELEGATE_FIRST
            it.delegate = [task: task]
            it()
        }
        println "${exit} ${attempt} ${asked[0]} ${asked[1] / 2**20}"
    }
}
"""


def test_nextflow_s_language_reads_it_and_asks_for_more_of_what_ran_out(store, capsys):
    if subprocess.run("groovy --version", shell=True, capture_output=True, check=False).returncode:
        pytest.skip("groovy, whose language Nextflow reads, does not run here")
    assert main(["export", "nextflow", *store, "--quantile", "0.5", "--margin", "1"]) == 0
    run = ["groovy", "-e", GROOVY]
    made = subprocess.run(run, input=capsys.readouterr().out, text=True, stdout=-1, check=True)
    expected = ["137 1 240 230", "137 2 240 460", "140 1 240 230", "140 2 480 230"]
    assert made.stdout.splitlines() == expected


def test_tables_and_what_would_change(store, capsys, tmp_path):
    assert main(["export", "json", *store]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["schema"] == 1
    assert [one["application"].rpartition(":")[2] for one in made["applications"]] == [
        "NFCORE_RNASEQ_ALIGN",
        "align",
    ]
    assert main(["export", "csv", *store, "--workflow", "flo"]) == 3  # the whole name counts
    capsys.readouterr()
    assert main(["export", "csv", *store, "--workflow", "flow"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2
    present = tmp_path / "config.yaml"
    present.write_text("set-resources:\n  align:\n    runtime: 600\n")
    assert main(["export", "snakemake", *store, "--diff", str(present)]) == 0
    out = capsys.readouterr().out
    assert "-    runtime: 600\n" in out
    assert "+    runtime: 4 * attempt\n" in out


def test_what_cannot_be_exported(store, capsys):
    assert main(["export", "snakemake", *store[:2], "-u", "bob"]) == 3
    assert main(["export", "snakemake", *store, "--diff", "/none"]) == 65
    assert "has enough runs" in capsys.readouterr().err


def test_a_profile_without_a_rule_is_none(tmp_path, capsys):
    url = f"sqlite:///{tmp_path / 'nimo.db'}"
    times = [{"job_id": n, "submit_s": SUBMIT_S + n, "elapsed_s": 60.0} for n in range(8)]
    tagged = {"name": "cfd", "comment": "nimo:app=cfd", "submit_line": "sbatch cfd.sh"}
    with Store.open(url) as made:
        made.runs.add([run(**one, **tagged) for one in times])
    assert main(["export", "csv", "--store", url, "-u", "ada"]) == 0
    assert main(["export", "snakemake", "--store", url, "-u", "ada"]) == 3
    assert "csv and json have all tags" in capsys.readouterr().err
