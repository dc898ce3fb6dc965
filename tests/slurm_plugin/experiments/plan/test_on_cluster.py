"""A workflow planned, submitted and followed on a real Slurm with two partitions."""

import json
import subprocess
import sysconfig
import time
from pathlib import Path

import pytest

from predictor.stored_table import encode
from sacct_ingest.records import KeyLevel, NodeProfile, Resource
from sacct_ingest.store import FitRow, Store
from slurm_plugin.experiments.learn.description import Journal, Stage, Trial
from slurm_plugin.experiments.plan import slurm_places
from tests.slurm_plugin.made import table

NIMO = Path(sysconfig.get_path("scripts")) / "nimo"
PARTITIONS = (
    "PartitionName=slow Nodes=n1,n2",
    "PartitionName=fast Nodes=n3,n4",
    "PartitionName=tiny Nodes=n3,n4 MaxNodes=1 MaxTime=10",
)
pytestmark = [pytest.mark.cluster, pytest.mark.long]
#: Work takes half as long on the fast nodes.
WORK = """\
#!/bin/sh
[ "$SLURM_JOB_PARTITION" = fast ] && sleep $(($1 / 2)) || sleep $1
"""
WORKFLOW = """
name: brain
storages:
  home: {{path: {work}/home}}
  scratch: {{path: {work}/scratch}}
links:
  - {{from: home, to: scratch, bandwidth: 100M, latency: 1ms, remote: false}}
places:
  slow: {{storage: home}}
  fast: {{storage: scratch, speed: 2}}
files:
  raw: {{at: home, size: 64M}}
  left: {{size: 1M}}
  right: {{size: 1M}}
  both: {{size: 1M}}
  report: {{size: 1M, deliver: home}}
tasks:
  split:
    command: '{work}/work 4; cp {{raw}} {{left}}'
    reads: [raw]
    writes: [left]
    run_time: {{1: 4s}}
  turn:
    command: '{work}/work 4; tac {{raw}} > {{right}}'
    reads: [raw]
    writes: [right]
    run_time: {{1: 4s}}
  join:
    command: 'srun -l {work}/work 4; cat {{left}} {{right}} > {{both}}'
    reads: [left, right]
    writes: [both]
    run_time: {{1: 8s, 2: 4s}}
  check:
    command: '{check}'
    reads: [both]
    run_time: {{1: 2s}}
  tell:
    command: 'wc -c < {{both}} > {{report}}'
    reads: [both]
    writes: [report]
    after: [check]
    run_time: {{1: 2s}}
"""


#: Planned for the deadline on two nodes each, as first takes long; it does not.
AGAIN = """
name: again
storages: {{home: {{path: {work}}}}}
places:
  slow: {{storage: home}}
  one: {{storage: home, partition: slow, nodes: 1}}
  two: {{storage: home, partition: fast, nodes: 2}}
files: {{wide: {{}}, moved: {{}}}}
tasks:
  first: {{command: 'true', places: [slow], run_time: 1000}}
  gate: {{command: 'until test -e {work}/go; do sleep 0.2; done', after: [first], places: [slow],
          run_time: 60}}
  wide: {{command: 'echo $SLURM_JOB_NUM_NODES >{{wide}}', writes: [wide], after: [gate],
          places: [slow], run_time: {{1: 5500, 2: 3000}}}}
  moved: {{command: 'echo $SLURM_JOB_PARTITION >{{moved}}', writes: [moved], after: [gate],
           places: [one, two], run_time: {{1: 5500, 2: 3000}}}}
  last: {{command: 'true', after: [moved], places: [slow], run_time: 1}}
"""
#: Submits a job and is killed, together with who asked for that, before it can say so.
KILLS = """\
#!/bin/sh
{sbatch} "$@" >/dev/null
kill -9 $PPID
"""


#: Nobody says how fast the places are.
MEASURED = """
name: measured
storages: {{home: {{path: {work}/home}}}}
places: {{slow: {{storage: home}}, fast: {{storage: home}}, tiny: {{storage: home}}}}
tasks:
  any: {{command: x, run_time: {{1: 1000}}}}
  learned: {{command: x, samples: app.learn.json}}
  limited: {{command: x, nodes: {nodes}, places: [tiny], run_time: {{1: 60, 2: 30}}}}
"""
#: The other cluster is faster, and home is not to be opened from there.
CLUSTERS = """
name: both
storages: {{home: {{path: {work}/home}}, far: {{path: {work}/far}}}}
links: [{{from: home, to: far, bandwidth: 100M, remote: false}}]
places:
  here: {{storage: home, partition: slow}}
  there: {{storage: far, partition: batch, cluster: big, speed: 10}}
files: {{raw: {{at: home, size: 1M}}, mid: {{size: 1M}}, out: {{size: 1M, deliver: home}}}}
tasks:
  first: {{command: 'cat {{raw}} >{{mid}}', reads: [raw], writes: [mid], places: [here],
           run_time: 60}}
  second: {{command: 'echo $SLURM_CLUSTER_NAME | cat {{mid}} - >{{out}}', reads: [mid],
            writes: [out], run_time: 3000}}
"""


@pytest.fixture(scope="module")
def cluster(slurm_cluster):
    with slurm_cluster(nodes=4, conf=PARTITIONS) as cluster:
        work = cluster.layout.work
        (work / "work").write_text(WORK)
        (work / "work").chmod(0o755)
        yield cluster


def workflow(cluster, name, check, text=WORKFLOW):
    """A folder of its own with the workflow and what it reads."""
    folder = cluster.layout.work / name
    (folder / "home").mkdir(parents=True)
    (folder / "home" / "raw").write_text("abc\n")
    text = text.format(work=folder, check=check).replace(f"{folder}/work", f"{folder}/../work")
    (folder / "brain.yaml").write_text(text)
    (folder / "nimo.yaml").write_text("mode: observe\n")
    return folder / "brain.yaml"


def nimo(cluster, file, *argv, check=True):
    line = [NIMO, "plan", *argv, file]
    return cluster.run(*line, check=check, env=environment(file), cwd=file.parent)


def environment(file):
    return {"NIMO_CONFIG": str(file.parent / "nimo.yaml")}


def test_submitted_and_followed_within_its_deadline(cluster):
    file = workflow(cluster, "good", "test -s {both}")
    store = f"sqlite:///{file.parent}/nimo.db"
    (file.parent / "nimo.yaml").write_text(f"mode: observe\nstore: {store}\n")
    with Store.open(store, create=True):
        pass
    planned = json.loads(nimo(cluster, file, "--json", "--deadline=now+10minutes").stdout)
    steps = {step["name"]: step for step in planned["plans"][0]["steps"]}
    assert not cluster.run("squeue", "-h").stdout
    assert planned["plans"][0]["chance"] == 1.0
    # The fast nodes are worth the copy of what is read, and that of the result.
    assert {"raw to scratch", "report to home"} <= steps.keys()
    assert steps["join"]["place"] == "fast"

    done = nimo(cluster, file, "--submit", "--follow", "--hard", "--deadline=now+10minutes")
    assert "raw to scratch: COMPLETED" in done.stdout
    assert (file.parent / "scratch" / "raw").read_text() == "abc\n"
    assert (file.parent / "home" / "report").read_text().strip() == "8"

    record = json.loads(file.with_suffix(".plan.json").read_text())
    steps = record["steps"]
    assert {run["state"] for run in steps.values()} == {"COMPLETED"}
    assert max(run["ended_s"] for run in steps.values()) <= record["deadline_s"]
    cluster.wait(*(run["job_id"] for run in steps.values()), accounted=True)
    rows = cluster.sacct("-X", fields=("JobID", "JobName", "Comment", "Start", "End"))
    by_id = {row["JobID"]: row for row in rows}
    own = {step: by_id[str(run["job_id"])] for step, run in steps.items()}
    assert own["split"]["Comment"] == "nimo:app=brain,problem=split"
    assert own["split"]["JobName"] == f"brain.split.{record['mark']}"
    assert own["join"]["Start"] >= max(own[task]["End"] for task in ("split", "turn"))
    # Followed once more, it says what became of it.
    assert "7 COMPLETED" in nimo(cluster, file, "--follow").stdout
    moved_as_reported(store)


def test_copies_of_a_plan_that_is_not_followed_enter_the_series_by_an_ingest(cluster):
    file = workflow(cluster, "alone", "test -s {both}")
    store = f"sqlite:///{file.parent}/nimo.db"
    (file.parent / "nimo.yaml").write_text(f"mode: observe\nstore: {store}\n")
    nimo(cluster, file, "--submit")
    steps = json.loads(file.with_suffix(".plan.json").read_text())["steps"]
    cluster.wait(*(run["job_id"] for run in steps.values()), accounted=True)
    cluster.run(NIMO, "ingest", env=environment(file), cwd=file.parent)
    moved_as_reported(store)


def moved_as_reported(store):
    """Both copies measured themselves: four bytes there, two back."""
    with Store.open(store) as opened:
        probes = list(opened.probes.since(0.0))
    moved = {one.source: one for one in probes if one.resource is Resource.TRANSFER}
    sizes = {(one.source, one.target): one.size_bytes for one in moved.values()}
    assert sizes == {("home", "scratch"): 4, ("scratch", "home"): 2}
    assert all(0 < one.took_s < 5 for one in moved.values())
    loads = {one.source: one.value for one in probes if one.resource is Resource.CPU}
    assert loads.keys() == {"home", "scratch"}
    assert all(0 < share <= 1 for share in loads.values())


def test_a_failing_task_takes_along_what_needs_it(cluster):
    file = workflow(cluster, "bad", "exit 3")
    done = nimo(cluster, file, "--submit", "--follow", check=False)
    assert done.returncode == 1
    assert "check: FAILED" in done.stdout
    assert "tell" in next(line for line in done.stdout.splitlines() if "is FAILED" in line)
    assert not (file.parent / "home" / "report").exists()
    assert not cluster.run("squeue", "-h").stdout


def killed_while_submitting(cluster, file, *argv):
    """Plan and submit, and be killed when the first job is there but not written down."""
    folder = file.parent / "bin"
    folder.mkdir()
    (folder / "sbatch").write_text(KILLS.format(sbatch=cluster.bin / "sbatch"))
    (folder / "sbatch").chmod(0o755)
    env = {**environment(file), "PATH": f"{folder}:{cluster.env['PATH']}"}
    line = [NIMO, "plan", "--submit", *argv, file]
    done = cluster.run(*line, check=False, env=env, cwd=file.parent)
    assert done.returncode == -9, done.stdout + done.stderr


def follow_until(cluster, file, start):
    """Follow until a line begins so, then kill the follower; its lines."""
    line = [NIMO, "plan", "--follow", file]
    env = {**cluster.env, **environment(file)}
    lines = []
    with subprocess.Popen(line, env=env, cwd=file.parent, stdout=subprocess.PIPE, text=True) as one:
        while not lines or (lines[-1] and not lines[-1].startswith(start)):
            lines.append(one.stdout.readline())
        one.kill()
    return lines


def test_killed_twice_and_planned_again_for_a_task_that_was_short(cluster):
    file = workflow(cluster, "again", "", AGAIN)
    killed_while_submitting(cluster, file, "--deadline=now+2hours")

    # The job that was there is found; the one after the change is submitted before the kill.
    lines = "".join(follow_until(cluster, file, "last: submitted as"))
    if "planned again" not in lines:
        lines += "".join(follow_until(cluster, file, "last: submitted as"))
    assert "first ended" in lines
    assert "moved: 1 node at one instead of 2 nodes at two" in lines
    assert "wide: 1 node at slow instead of 2 nodes at slow" in lines

    (file.parent / "go").touch()
    done = nimo(cluster, file, "--follow")
    assert done.stdout.endswith("5 COMPLETED\n")
    assert (file.parent / "wide").read_text() == "1\n"
    assert (file.parent / "moved").read_text() == "slow\n"

    record = json.loads(file.with_suffix(".plan.json").read_text())
    mark = record["mark"]
    # Squeue still has jobs that accounting leaves out, for they never were eligible.
    listed = cluster.run("squeue", "-h", "-t", "all", "-o", "%j|%T").stdout.split()
    own = [line for line in listed if mark in line]
    assert sorted(own) == sorted([
        f"again.first.{mark}|COMPLETED",
        f"again.gate.{mark}|COMPLETED",
        # Changed in place: it keeps its age in the queue.
        f"again.wide.{mark}|COMPLETED",
        f"again.moved.{mark}|CANCELLED",
        f"again.moved.{mark}-2|COMPLETED",
        f"again.last.{mark}|CANCELLED",
        f"again.last.{mark}-2|COMPLETED",
    ])  # fmt: skip


def test_planned_and_followed_over_two_clusters(cluster, slurm_cluster):
    file = workflow(cluster, "both", "", CLUSTERS)
    with slurm_cluster(nodes=1, name="big", beside=cluster):
        refused = nimo(cluster, file, "--submit", check=False)
        assert "which Slurm cannot wait for: add --follow" in refused.stderr
        done = nimo(cluster, file, "--submit", "--follow", "--fixed")
        assert done.stdout.endswith("4 COMPLETED\n")
        assert (file.parent / "home" / "out").read_text() == "abc\nbig\n"
        there = cluster.run("squeue", "-M", "big", "-h", "-t", "all", "-o", "%j").stdout.split()
        assert [name.split(".")[1] for name in there[-2:]] in (
            ["mid-to-far", "second"],
            ["second", "mid-to-far"],
        )


#: What 'snakemake --dry-run --printshellcmds' prints, in short.
DRY_RUN = """\
rule total:
    input: out/a.n, out/b.n
    output: out/total
    jobid: 1
Shell command: cat out/a.n out/b.n >out/total

rule count:
    input: raw
    output: out/a.n
    jobid: 2
Shell command: wc -c <raw >out/a.n

rule count:
    input: raw
    output: out/b.n
    jobid: 3
Shell command: wc -l <raw >out/b.n

This was a dry-run (flag -n). The order of jobs does not reflect the order of execution.
"""
FAST = """
storages: {{home: {{path: {work}/home}}, far: {{path: {work}/far}}}}
links: [{{from: home, to: far, bandwidth: 100M, remote: false}}]
places: {{fast: {{storage: far}}}}
"""


def test_a_workflow_of_snakemake_is_planned_submitted_and_followed(cluster):
    """Its input is copied to where it runs, and its result home."""
    file = workflow(cluster, "snake", "", FAST)
    printed = file.parent / "dry.txt"
    printed.write_text(DRY_RUN)
    store = f"sqlite:///{file.parent}/nimo.db"
    (file.parent / "nimo.yaml").write_text(f"mode: observe\nstore: {store}\n")
    with Store.open(store, create=True) as known:
        known.fits.replace([
            FitRow(
                level=KeyLevel.TAG, key=f"snakemake:{rule}", label=f"snakemake:{rule}",
                verdict="reliable", model="amdahl", fitted_s=1.0,
                payload=encode(table(level="tag", key=f"snakemake:{rule}",
                                     label=f"snakemake:{rule}")),
            )
            for rule in ("count", "total")
        ])  # fmt: skip
    done = nimo(cluster, printed, "--submit", "--follow", "--fixed", f"--site={file}")
    assert done.stdout.endswith("5 COMPLETED\n"), done.stdout
    assert (file.parent / "home" / "out" / "total").read_text() == "4\n1\n"
    assert (file.parent / "far" / "raw").exists()


def test_slurm_says_when_a_job_was_last_on_a_node(cluster, monkeypatch):
    """Probes of CPUs count only from after then."""
    monkeypatch.setattr(slurm_places, "run_slurm", lambda argv, **_: cluster.run(*argv).stdout)
    began_s = time.time()
    cluster.run("sbatch", "--wait", "-p", "slow", "-w", "n1", "--wrap", "sleep 2")
    busy_s = slurm_places._last_busy("", 10.0)  # noqa: SLF001 - what Slurm prints
    assert busy_s["n1"] > began_s + 1.0
    assert busy_s["n1"] <= time.time()
    assert busy_s.get("n4", 0.0) < began_s


def test_what_the_site_knows_and_allows(cluster):
    file = workflow(cluster, "measured", "", MEASURED.replace("{nodes}", "1-2"))
    store = f"sqlite:///{file.parent}/nimo.db"
    (file.parent / "nimo.yaml").write_text(f"mode: observe\nstore: {store}\n")
    with Store.open(store, create=True) as remaining:
        remaining.profiles.add([
            NodeProfile(
                cluster="nimo",
                node=f"n{number}",
                node_type="any",
                at_s=1.0,
                cpu_all_events_per_s=events,
            )
            for number, events in ((1, 100.0), (2, 110.0), (3, 210.0), (4, 210.0))
        ])  # fmt: skip
    journal = Journal(file.parent / "app.learn.json", "app")
    for events in (100.0, 200.0, 400.0):
        journal.save(
            Trial(
                key=str(events),
                attempt=1,
                job_name="x",
                nodes=1,
                limit_s=60.0,
                attributes={"cpu_all_events_per_s": events},
                purpose="",
                why="",
                planned_s=1,
                stage=Stage.DONE,
                elapsed_s=round(1e5 / events),
            )
        )
    planned = json.loads(nimo(cluster, file, "--json").stdout)
    steps = {step["name"]: step for step in planned["plans"][0]["steps"]}
    # The medians are 105 and 210: twice as fast as where the times were learned.
    takes = {name: step["end_s"] - step["start_s"] for name, step in steps.items()}
    assert (steps["any"]["place"], takes["any"]) == ("fast", pytest.approx(500.0))
    assert takes["learned"] == pytest.approx(1e5 / 210, rel=0.1)
    assert (steps["limited"]["nodes"], takes["limited"]) == (1, pytest.approx(30.0))

    file.write_text(file.read_text().replace("nodes: 1-2", "nodes: 2"))
    refused = nimo(cluster, file, check=False)
    assert "tiny has 2 nodes and gives 1 (MaxNodes of partition tiny)" in refused.stderr
