"""Real workflow engines on a real Slurm: what they submit is few applications, with advice.

It takes minutes and an environment of its own: `make test-releases` makes it and runs this.
"""

import os
import shutil
import subprocess
import sys
import time
import venv
from pathlib import Path
from uuid import uuid4

import pytest
import yaml

from sacct_ingest.records import JobState, KeyLevel
from sacct_ingest.runs.submission import MEMORY, SAMPLE, TIME_LIMIT, WORKFLOW
from sacct_ingest.store import Store
from tests.cluster import cgroups
from tests.cluster.releases import cache
from tests.conftest import need_in_jobs, unavailable
from tests.end_to_end.site import site_on
from tests.lua.test_inputs import CONF, LONG_MS

PACKAGES = (
    *("snakemake==9.27.0", "snakemake-executor-plugin-slurm==2.8.0"),
    *("submitit==1.5.4", "dask-jobqueue==0.9.0"),
)
RULES, SAMPLES = ("align", "count", "plot"), "abcd"
MORE, LONGER = "mt"  #: samples that need more memory and more time than any before
#: The first attempt to count one of the samples has too little memory.
SNAKEFILE = """\
rule all:
    input: expand("out/{s}.txt", s=list(config["samples"]))
rule align:
    output: "out/{s}.bam"
    resources: mem_mb=500, runtime=10
    shell: "sleep $(cat long.{wildcards.s} || echo 6); touch {output}"
rule count:
    input: "out/{s}.bam"
    output: "out/{s}.tsv"
    resources: mem_mb=lambda wildcards, attempt: 500 * attempt, runtime=10
    shell: "head -c $(cat need.{wildcards.s})M /dev/zero | tail -c 2000M | wc -c; sleep 4;"
        " touch {output}"
rule plot:
    input: "out/{s}.tsv"
    output: "out/{s}.txt"
    resources: mem_mb=500, runtime=5
    shell: "sleep 2; touch {output}"
"""
SNAKEMAKE = (
    *("-m", "snakemake", "--executor", "slurm", "--jobs", "8", "--retries", "1", "--forceall"),
    *("--default-resources", "slurm_partition=batch", "--latency-wait", "20"),
    *("--slurm-init-seconds-before-status-checks", "5", "--config"),
)
#: Sorts inputs that differ by a factor of a hundred, MB: what it needs of memory goes by these.  It
#: holds that for as long as nobody takes what it writes.
SORTING = """\
rule all:
    input: expand("sorted/{s}.txt", s=config["sizes"].split("-"))
rule sort:
    input: "numbers/{s}.txt"
    output: "sorted/{s}.txt"
    resources: mem_mb=1500, runtime=10
    shell: "LC_ALL=C sort --parallel=1 -S 1200M {input} | (sleep 4; cat) > {output}"
"""
FIRST_SIZES = (1, 3, 8, 15, 20, 25, 40, 60, 70, 100)
NEW_SIZES = ((2, 12, 50, 80), (1, 5, 30, 100))
SUBMITIT = """\
import time, submitit
executor = submitit.AutoExecutor("logs")
executor.update_parameters(name="train", timeout_min=5, slurm_partition="batch")
for job in [executor.submit(time.sleep, seconds) for seconds in (1, 2)]:
    job.result()
"""
DASK = """\
from dask.distributed import Client
from dask_jobqueue import SLURMCluster
with SLURMCluster(
    queue="batch", cores=1, memory="500MB", walltime="00:05:00", interface="lo",
    scheduler_options={"dashboard_address": "127.0.0.1:0"},
) as cluster, Client(cluster) as client:
    cluster.scale(2)
    client.wait_for_workers(2)
    client.gather(client.map(abs, range(4)))
"""


@pytest.fixture(scope="module")
def engines():
    """Give the Python of an environment with the engines."""
    if os.environ.get("NIMO_ENGINES") != "make":
        pytest.skip("takes minutes: NIMO_ENGINES=make, as of make test-releases, runs it")
    folder = cache().with_name("engines")
    holds, python = folder / "packages.txt", folder / "bin" / "python"
    if not holds.exists() or holds.read_text() != " ".join(PACKAGES):
        venv.create(folder, clear=True)
        pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", *PACKAGES]
        done = subprocess.run(pip, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"the engines cannot be installed: {done.stderr[-300:]}")
        holds.write_text(" ".join(PACKAGES))
    return python


@pytest.fixture(scope="module")
def site(slurm_cluster, engines):
    """A site whose jobs have no more memory than they asked for, where that can be had."""
    conf = ["SelectTypeParameters=CR_Core_Memory"]
    with site_on(slurm_cluster, nodes=4, conf=conf, memory_cgroups=not cgroups.lacking()) as made:
        need_in_jobs(made.cluster, engines)
        for sample in f"{SAMPLES}e{MORE}{LONGER}":
            made.write_script(f"need.{sample}", {"c": "600", MORE: "900"}.get(sample, "1"))
        made.write_script(f"long.{LONGER}", "100")
        made.write_script("Snakefile", SNAKEFILE)
        made.run_nimod("observe")
        yield made


def run_engine(site, engines, *argv, stdin=""):
    work = site.cluster.layout.work
    home = {"HOME": str(work), "XDG_CACHE_HOME": str(work / ".cache")}
    site.cluster.run(engines, *argv, env=home, stdin=stdin, timeout_s=600)


def learnt(site):
    """Ingest and fit; give the runs by tag, without the user."""
    ids = site.cluster.run("squeue", "-h", "-a", "-t", "all", "-o", "%F").stdout.split()
    site.cluster.wait(*{int(one) for one in ids}, accounted=True)
    site.learn()
    with Store.open(site.nimod.store) as store:
        by_key = dict(store.runs.by_key(KeyLevel.TAG))
    return {key.partition("/")[2]: list(rows) for key, rows in by_key.items()}


@pytest.fixture(scope="module")
def flow(site, engines):
    """Run the workflow twice; give its runs."""
    for _ in range(2):
        run_engine(site, engines, *SNAKEMAKE, f"samples={SAMPLES}")
    return learnt(site)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_two_runs_of_a_snakemake_workflow_are_three_applications(site, engines, flow):
    runs = flow
    completed = {
        name: sum(one.state is JobState.COMPLETED for one in rows) for name, rows in runs.items()
    }
    assert completed == {f"snakemake:{rule}": 8 for rule in RULES}
    retries = [one for one in runs["snakemake:count"] if one.req_mem_bytes == 1000 * 2**20]
    assert len(retries) == (0 if cgroups.lacking() else 2)
    for one in retries:
        assert one.state is JobState.COMPLETED
        asked = one.attributes
        assert (asked[SAMPLE], Path(asked[WORKFLOW]).name) == ("c", "Snakefile")
        assert not {MEMORY, TIME_LIMIT} & asked.keys()
    since_s = max(one.at_s for one, _ in site.decisions())
    run_engine(site, engines, *SNAKEMAKE, "samples=e")
    third = [one for one in site.made(since_s) if one.at_s > since_s]
    assert [one.key for one in third] == [f"{third[0].user}/snakemake:{rule}" for rule in RULES]
    for one in third:
        assert one.request_predicted_s, one
    command = f"{engines} -m snakemake --snakefile Snakefile --attempt 1 --mode remote"
    for rule in RULES:
        comment = f"--comment=rule_{rule}_wildcards_f"
        advice = site.advise("-J", str(uuid4()), comment, "-t10", "--mem=500", f"--wrap={command}")
        assert f"snakemake:{rule}, 8 runs" in advice.stdout, advice


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_slurm_gets_the_limits_and_memory_of_an_exported_profile(site, engines, flow):
    user = flow["snakemake:align"][0].user
    made = site.nimod.run("export", "snakemake", "-u", user).stdout
    work = site.cluster.layout.work
    (work / "profile").mkdir()
    site.write_script("profile/config.yaml", made)
    first, second = (
        {
            rule: tuple(eval(one[name], {"attempt": attempt}) for name in ("runtime", "mem_mb"))
            for rule, one in yaml.safe_load(made)["set-resources"].items()
        }
        for attempt in (1, 2)
    )
    since_s = time.time()
    chosen = f"samples={MORE}{LONGER}"
    run_engine(site, engines, *SNAKEMAKE, chosen, "--profile", str(work / "profile"))
    asked = {}
    for rule in RULES:
        for one in learnt(site)[f"snakemake:{rule}"]:
            if one.submit_s >= since_s - 1:
                got = (one.limit_s or 0) / 60, (one.req_mem_bytes or 0) / 2**20
                asked.setdefault((rule, one.attributes[SAMPLE]), []).append(got)
    expected = {(rule, sample): [first[rule]] for rule in RULES for sample in MORE + LONGER}
    expected["align", LONGER] += [second["align"]]
    if not cgroups.lacking():
        expected["count", MORE] += [second["count"]]
    assert asked == expected


@pytest.fixture(scope="module")
def sorting(slurm_cluster, engines):
    """A site whose sbatch looks at input files, with a workflow and its inputs."""
    probe = ["lua5.1", "-e", 'require("posix.unistd")']
    if shutil.which("lua5.1") is None or subprocess.run(probe, check=False).returncode:
        unavailable("not installed: lua-posix")
    conf = ["SelectTypeParameters=CR_Core_Memory"]
    with site_on(slurm_cluster, nodes=4, conf=conf, memory_cgroups=not cgroups.lacking()) as made:
        need_in_jobs(made.cluster, engines)
        settings = made.cluster.layout.etc / "nimo_hook.conf"
        settings.write_text(f"{settings.read_text()}{CONF}inputs_ms = {LONG_MS}\n")
        made.write_script("Snakefile", SORTING)
        numbers = made.cluster.layout.work / "numbers"
        numbers.mkdir()
        numbers.chmod(0o755)
        for size in {*FIRST_SIZES, *sum(NEW_SIZES, ())}:
            with (numbers / f"{size}.txt").open("w") as file:
                subprocess.run(["shuf", f"-i0-{size * 100_000}", "-o", file.name], check=True)
        made.run_nimod("observe")
        yield made


def sorted_by(site, engines, sizes, *options):
    """Run the workflow; give the state, the memory asked for and the input of each new job."""
    before = {one.job_id for one in learnt(site).get("snakemake:sort", [])}
    chosen = f"sizes={'-'.join(map(str, sizes))}"
    run_engine(site, engines, *SNAKEMAKE, chosen, *options)
    new = [one for one in learnt(site)["snakemake:sort"] if one.job_id not in before]
    return {
        int(one.attributes[SAMPLE]): (one.state, (one.req_mem_bytes or 0) / 2**20, one.inputs)
        for one in new
    }


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_requests_go_by_inputs_that_differ_by_a_factor_of_a_hundred(sorting, engines):
    site, work = sorting, sorting.cluster.layout.work
    first = sorted_by(site, engines, FIRST_SIZES)
    bytes_of = {one: (work / f"numbers/{one}.txt").stat().st_size for one in first}
    assert {one: sizes for one, (*_, sizes) in first.items()} == {
        one: f"1Ktxt={size}" for one, size in bytes_of.items()
    }
    assert {mib for _, mib, _ in first.values()} == {1500}
    (work / "profile").mkdir()
    user = site.cluster.run("id", "-un").stdout.strip()
    for sizes in NEW_SIZES:
        made = site.nimod.run("export", "snakemake", "-u", user).stdout
        site.write_script("profile/config.yaml", made)
        asked = sorted_by(site, engines, sizes, "--profile", str(work / "profile"))
        assert {state for state, *_ in asked.values()} == {JobState.COMPLETED}
        assert asked[max(sizes)][1] > 1.5 * asked[min(sizes)][1]
        assert sum(mib for _, mib, _ in asked.values()) < len(sizes) * 1500 / 2


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_tasks_of_an_array_get_the_sizes_of_their_own_inputs_afterwards(sorting, engines):
    site, numbers = sorting, sorting.cluster.layout.work / "numbers"
    before = {one.job_id for one in learnt(site).get("snakemake:sort", [])}
    run_engine(site, engines, *SNAKEMAKE, "sizes=1-3-8", "--slurm-array-jobs", "all")
    learnt(site)
    site.nimod.run("ingest", "--stat")
    new = [one for one in learnt(site)["snakemake:sort"] if one.job_id not in before]
    assert len({one.array_job_id for one in new} - {None}) == 1
    assert {one.state for one in new} == {JobState.COMPLETED}
    expected = sorted(f"1Ktxt={(numbers / f'{size}.txt').stat().st_size}" for size in (1, 3, 8))
    assert sorted(str(one.inputs) for one in new) == expected
    assert not any(SAMPLE in one.attributes for one in new)


@pytest.mark.long
@pytest.mark.parametrize(
    ("program", "name", "of_each"), [(SUBMITIT, "submitit:train", 2), (DASK, "dask:worker", 2)]
)
def test_two_runs_of_a_program_are_one_application(site, engines, program, name, of_each):
    for _ in range(2):
        run_engine(site, engines, "-", stdin=program)
    assert len(learnt(site)[name]) == 2 * of_each
