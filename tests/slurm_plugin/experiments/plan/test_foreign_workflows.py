"""Workflows of WfCommons, Snakemake and Nextflow, planned on a site's places."""

import json
import re
from pathlib import Path

import pytest

from sacct_ingest.errors import ConfigError
from slurm_plugin.cli.nimo import main
from slurm_plugin.experiments.plan.workflow_file import parse, text_of
from tests.slurm_plugin.experiments.fake_slurm import cuts

DATA = Path(__file__).parents[3] / "data" / "workflows"
SITE = """
storages: {home: {path: /home/ana/flow}, scratch: {path: /scratch/ana}}
links: [{from: home, to: scratch, bandwidth: 100M, remote: false}]
places: {slow: {storage: home, nodes: 1-4}, fast: {storage: scratch, nodes: 1-4, speed: 4}}
"""


@pytest.fixture
def site(tmp_path, monkeypatch):
    (tmp_path / "nimo.yaml").write_text(f"store: sqlite:///{tmp_path / 'none.db'}\n")
    monkeypatch.setenv("NIMO_CONFIG", str(tmp_path / "nimo.yaml"))
    (tmp_path / "site.yaml").write_text(SITE)
    return tmp_path / "site.yaml"


def read(name, site, trace=None):
    return parse(text_of(DATA / name, site, trace and DATA / trace), name=name)


def test_an_instance_of_wfcommons_has_all_that_a_plan_needs(site):
    flow = read("wfcommons-1.5.json", site)
    assert list(flow.tasks) == ["split_1", "count_2", "count_3", "join_4"]
    assert flow.before["join_4"] == ("count_2", "count_3")
    count = flow.tasks["count_2"]
    # Arguments are text for a shell, and Makeflow's begin with the program.
    assert count.command == "wc -w <{part-a} > {a-n}"
    assert count.options == ("--cpus-per-task=4", "--mem=2048M")
    assert count.run_times_s == {1: 600.0}
    assert flow.tasks["join_4"].run_times_s == {1: 0.001}
    words, last = flow.files["words-txt"], flow.files["all-n"]
    assert (words.at, words.path, words.size_bytes) == (("home",), "words.txt", 2e9)
    assert (bool(last.at), last.deliver) == (False, "home")
    assert flow.files["part-a"].deliver is None


def test_an_older_instance_is_read_as_well(site):
    flow = read("wfcommons-1.4.json", site)
    assert flow.before["count_2"] == ("split_1",)
    assert flow.tasks["count_2"].command == "wc -w {part-a}"
    assert flow.tasks["split_1"].command == ""
    assert flow.files["part-a"].size_bytes == 1e9


def test_tasks_whose_names_are_their_ids_are_runs_of_one_program(site):
    file = site.parent / "ids.json"
    text = (DATA / "wfcommons-1.5.json").read_text().replace('"id": "part.a"', '"id": "/part.a"')
    text = re.sub(r'"name": "count", "id": "(count_.)"', r'"name": "\1", "id": "\1"', text)
    file.write_text(text.replace('["part.a"', '["/part.a"'))
    flow = parse(text_of(file, site), name="ids")
    assert {flow.tasks[one].application for one in ("count_2", "count_3")} == {"count"}
    assert flow.files["part-a"].path == "part.a"  # below the storage's folder, as written


def test_files_elsewhere_stay_where_they_are(site):
    """Genomes and the like have absolute paths; of the data's own folder they are its files."""
    dry = site.parent / "dry.txt"
    text = (DATA / "snakemake-9.txt").read_text()
    dry.write_text(
        text.replace("in/a.txt", "/genomes/a.fa")
        .replace("in/b.txt", "/home/ana/flow/in/b.txt")
        .replace("out/a.sorted", "/tmp/a.sorted")
    )
    flow = parse(text_of(dry, site), name="dry")
    assert flow.tasks["sort-2"].command == "sort -n /genomes/a.fa > /tmp/a.sorted"
    assert (flow.tasks["sort-2"].reads, flow.tasks["sort-2"].writes) == ((), ())
    assert set(flow.before["merge-1"]) == {"sort-2", "sort-3"}
    (b,) = flow.tasks["sort-3"].reads
    assert flow.files[b].path == "in/b.txt"
    assert flow.tasks["sort-3"].command.startswith(f"sort -n {{{b}}} >")


def test_a_dry_run_of_snakemake_has_files_and_commands(site):
    flow = read("snakemake-9.txt", site)
    assert sorted(flow.tasks) == ["merge-1", "report-4", "sort-2", "sort-3"]
    assert flow.before["merge-1"] == ("sort-2", "sort-3")
    assert flow.tasks["sort-2"].command == "sort -n {in-a-txt} > {out-a-sorted}"
    assert flow.tasks["sort-2"].options == ("--cpus-per-task=2", "--mem=95M")
    assert flow.tasks["sort-2"].application == "snakemake:sort"
    merge = flow.tasks["merge-1"].command
    assert merge.splitlines()[0].endswith("wc -l < {out-merged-txt} > {out-count-txt}")
    assert merge.splitlines()[1].strip() == "echo done"
    assert flow.tasks["report-4"].command == ""  # of a rule with run:
    assert flow.files["out-report-txt"].deliver == "home"


def test_the_line_that_ends_a_dry_run_is_of_no_command(site):
    """Where no statistics stand between, too."""
    dry = site.parent / "dry.txt"
    text = (DATA / "snakemake-9.txt").read_text()
    last_command = text.index("echo done")
    jobs = text[text.index("\n[Mon") : text.index("\n[Mon", last_command)]
    dry.write_text(f"{jobs}\nThis was a dry-run (flag -n).\n")
    flow = parse(text_of(dry, site), name="dry")
    assert flow.tasks["merge-1"].command.endswith("echo done")


def test_files_that_are_not_there_yet_are_as_large_as_what_their_task_reads(site):
    folder = site.parent / "flow"
    (folder / "in").mkdir(parents=True)
    for name, size in (("a", 1000), ("b", 3000)):
        (folder / "in" / f"{name}.txt").write_bytes(b"x" * size)
    site.write_text(SITE.replace("/home/ana/flow", str(folder)))
    files = read("snakemake-9.txt", site).files
    sizes = {name: file.size_bytes for name, file in files.items()}
    assert (sizes["in-a-txt"], sizes["out-b-sorted"]) == (1000, 3000)
    assert sizes["out-merged-txt"] == sizes["out-count-txt"] == 2000


def test_a_dry_run_with_groups_checkpoints_and_temporary_files(site):
    """What is said after a command is not part of it; what a rule without output asks for comes."""
    flow = read("snakemake-9-groups.txt", site)
    assert flow.tasks["one-2"].command == (
        "mkdir -p -- logs\ncp {in-a-txt} {out-a-txt} 2> logs/one.log; mkdir {out-dir}"
    )
    assert flow.tasks["one-2"].options == ("--time=90",)
    assert flow.before["two-1"] == ("one-2",)
    # All of it is wanted: the first file, although a task reads it, too.
    delivered = {name for name, file in flow.files.items() if file.deliver}
    assert delivered == {"out-a-txt", "out-b-txt", "out-d-txt", "out-dir"}
    assert flow.tasks["three-4"].command == "cp {out-a-txt} {out-c-txt}"


def test_a_dry_run_that_hides_a_job_is_refused(site):
    """Of a rule with a message Snakemake prints that in place of its files."""
    file = site.parent / "dry.txt"
    text = (DATA / "snakemake-9.txt").read_text()
    hidden = re.sub(r"rule merge:\n(?:    .*\n)+", "Job 1: now they are merged\n", text)
    assert hidden != text
    file.write_text(hidden)
    with pytest.raises(ConfigError, match="the files of 1 of 1 jobs of rule merge are not shown"):
        text_of(file, site)


def test_a_site_says_run_times_by_rule(site):
    site.write_text(SITE + "run_times: {sort: 2min, report: 60}\n")
    flow = read("snakemake-9.txt", site)
    times = {name: dict(task.run_times_s) for name, task in flow.tasks.items()}
    assert times == {"sort-2": {1: 120}, "sort-3": {1: 120}, "report-4": {1: 60}, "merge-1": {}}
    site.write_text(SITE + "run_times: {sorts: 2min}\n")
    with pytest.raises(ConfigError, match="'sorts' is not among the tasks: merge, report, sort"):
        read("snakemake-9.txt", site)


def test_a_dag_of_snakemake_has_its_jobs_and_their_order(site):
    flow = read("snakemake-9.dot", site)
    assert sorted(one.partition("-")[0] for one in flow.tasks) == [
        "merge", "report", "sort", "sort",
    ]  # fmt: skip
    (merge,) = (name for name in flow.tasks if name.startswith("merge"))
    assert [one.partition("-")[0] for one in flow.before[merge]] == ["sort", "sort"]


def test_a_dag_of_nextflow_has_its_processes_or_with_a_trace_their_tasks(site):
    flow = read("nextflow.dot", site)
    assert list(flow.tasks) == ["FLOW-ALIGN", "FLOW-SORT", "FLOW-MERGE"]
    assert flow.before["FLOW-MERGE"] == ("FLOW-SORT",)
    assert flow.tasks["FLOW-SORT"].application == "nextflow:SORT"
    flow = read("nextflow.dot", site, "nextflow-trace.txt")
    assert len(flow.tasks) == 5  # the one that failed was tried again
    assert flow.before["FLOW-SORT-s1"] == ("FLOW-ALIGN-s1",)
    assert flow.before["FLOW-MERGE"] == ("FLOW-SORT-s1", "FLOW-SORT-s2")
    times = {name: task.run_times_s[1] for name, task in flow.tasks.items()}
    assert times["FLOW-ALIGN-s2"] == 180.0
    assert times["FLOW-SORT-s2"] == pytest.approx(0.35)


def test_it_is_planned_as_any_other(site, capsys):
    instance = DATA / "wfcommons-1.5.json"
    assert main(["lab", "plan", "--empty", "--json", "--site", str(site), str(instance)]) == 0
    plan = json.loads(capsys.readouterr().out)["plans"][0]
    steps = {step["name"]: step for step in plan["steps"]}
    # 1,180 s at the fast place instead of 4 times that are worth a copy of 20 s.
    assert steps["words-txt to scratch"]["end_s"] < steps["split_1"]["end_s"]
    assert {steps[name]["place"] for name in ("count_2", "count_3")} == {"fast"}
    assert "all-n to home" in steps


@pytest.mark.parametrize(
    ("name", "old", "new", "words", "reported"),
    [
        ("wfcommons-1.5.json", "", "", [], "it has no places: name a file of storages"),
        ("wfcommons-1.5.json", '"1.5"', '"2.0"', ["site"], "schemaVersion: '2.0' is none of 1.3"),
        ("wfcommons-1.5.json", '"id": "count_2", "parents"', '"id": 2, "parents"', ["site"],
         r"workflow\.specification\.tasks\[1\]\.id: give text, not a whole number"),
        ("wfcommons-1.5.json", '"outputFiles": ["b.n"]', '"outputFiles": ["a.n"]', ["site"],
         "a-n is written by two tasks, count_2 and count_3"),
        ("wfcommons-1.5.json", "", "", ["site", "trace"], "only a DAG of Nextflow has a --trace"),
        ("snakemake-9.dot", "", "", ["site", "trace"], "only a DAG of Nextflow has a --trace"),
        ("nextflow.dot", "ALIGN", "OTHER", ["site", "trace"], "process .ALIGN. is not in"),
        ("nextflow.dot", "label=\"FLOW", "shape=point,label=\"FLOW", ["site"], "graph has no task"),
        ("snakemake-9.txt", "    output: ", "    log: ", ["site"], "no job of the dry run writes"),
    ],
)  # fmt: skip
def test_mistakes_are_one_line(site, capsys, name, old, new, words, reported):
    file = site.parent / name
    text = (DATA / name).read_text()
    assert old in text
    file.write_text(text.replace(old, new))
    given = {"site": site, "trace": DATA / "nextflow-trace.txt"}
    options = [one for word in words for one in (f"--{word}", str(given[word]))]
    assert main(["lab", "plan", "--empty", *options, str(file)]) == 78
    error = capsys.readouterr().err
    assert error.startswith("nimo: ") and error.count("\n") == 1
    assert re.search(reported, error), error


def test_a_workflow_with_places_of_its_own_takes_no_site_and_a_site_no_other_data(site, capsys):
    own = site.parent / "flow.yaml"
    own.write_text(SITE + "tasks: {a: {command: x, run_time: 9}}\n")
    assert main(["lab", "plan", "--empty", "--site", str(site), str(own)]) == 78
    assert "one that has its own places takes no --site" in capsys.readouterr().err
    site.write_text(SITE + "data: tape\n")
    with pytest.raises(ConfigError, match="data: 'tape' is not among the storages: home, scratch"):
        read("wfcommons-1.5.json", site)


def test_a_task_without_a_command_is_planned_and_not_submitted(site, capsys):
    file = site.parent / "wfcommons-1.4.json"
    file.write_text((DATA / file.name).read_text())
    words = ["lab", "plan", "--empty", "--site", str(site), str(file)]
    assert main(words) == 0
    assert capsys.readouterr().out.count("\n    # its command is not known\n") == 1
    assert main([*words, "--submit"]) == 78
    assert "tasks.split_1: its command is not known" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "end"),
    [
        ("wfcommons-1.5.json", ""),
        ("snakemake-9.txt", " (flag -n)"),
        ("snakemake-9.dot", ""),
        ("nextflow.dot", ""),
    ],
)
def test_a_workflow_cut_anywhere_is_refused(site, name, end):
    """Only what is said after the workflow may be missing."""
    file = site.parent / name
    whole = (DATA / name).read_bytes()
    file.write_bytes(whole)
    assert text_of(file, site)
    needed = whole[: whole.rindex(end.encode())].rstrip()
    for data in list(cuts(needed))[::41]:
        file.write_bytes(data)
        with pytest.raises(ConfigError, match=f"cut off at byte {len(data)}|it is no workflow of"):
            text_of(file, site)


def test_a_trace_cut_anywhere_is_refused_but_between_its_lines(site):
    file = site.parent / "trace.txt"
    for data in cuts((DATA / "nextflow-trace.txt").read_bytes()):
        file.write_bytes(data)
        lines = data.count(b"\n")
        if lines > 1 and data.endswith(b"\n"):
            assert text_of(DATA / "nextflow.dot", site, file)
            continue
        with pytest.raises(ConfigError, match=f"cut off at byte {len(data)}$|or no task$"):
            text_of(DATA / "nextflow.dot", site, file)


def test_a_line_of_a_trace_with_too_few_columns_is_refused_with_its_number(site):
    file = site.parent / "trace.txt"
    file.write_text("name\tstatus\trealtime\nFLOW:ALIGN\tCOMPLETED\t2m\nFLOW:SORT\n")
    with pytest.raises(ConfigError, match="line 3 of the trace has too few columns"):
        text_of(DATA / "nextflow.dot", site, file)
