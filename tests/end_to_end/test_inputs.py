"""Jobs whose inputs differ by a factor of a hundred: sizes, a history, a prediction by size."""

import json
import shutil
import subprocess
import time

import pytest

from sacct_ingest.records import KeyLevel
from sacct_ingest.store import Store
from tests.conftest import unavailable
from tests.end_to_end.site import BEGAN, SLEEP_UNTIL, site_on
from tests.lua.test_inputs import CONF, LONG_MS
from tests.processes import wait_until

#: A second for each hundred thousand bytes of its input, and two.
PROGRAM = f"""\
#!/bin/bash
#SBATCH -N1 -n1 -t5
{BEGAN}
{SLEEP_UNTIL}
bytes=$(wc -c < "$1")
touch started.$SLURM_JOB_ID
sleep_until $((2000 + bytes / 100))
"""
SIZES = (20_000, 100_000, 300_000, 700_000, 1_200_000, 2_000_000)
NEW = 1_600_000


@pytest.fixture(scope="module")
def sized(slurm_cluster):
    """A site where sbatch looks at input files, with a history of jobs that differ in these."""
    if (
        shutil.which("lua5.1") is None
        or subprocess.run(
            ["lua5.1", "-e", 'require("posix.unistd")'], check=False, capture_output=True
        ).returncode
    ):
        unavailable("not installed: lua-posix")
    with site_on(slurm_cluster, nodes=4, cpus=4) as site:
        settings = site.cluster.layout.etc / "nimo_hook.conf"
        settings.write_text(f"{settings.read_text()}{CONF}inputs_ms = {LONG_MS}\n")
        site.run_nimod("observe")
        site.program = site.write_script("sized.sh", PROGRAM)
        yield site


def a_file(site, size, name=""):
    path = site.cluster.layout.work / (name or f"in.{size}.dat")
    # What is written anew while a job runs is none of its inputs.
    if not path.exists() or path.stat().st_size != size:
        path.write_bytes(b"x" * size)
    return path


def runs_of(site):
    with Store.open(site.nimod.store) as store:
        user = site.cluster.run("id", "-un").stdout.strip()
        groups = store.runs.by_key(KeyLevel.USER)
        return {row.job_id: row for key, rows in groups if key == user for row in rows}


def advised_s(site, *argv):
    reported = json.loads(site.advise("--json", *argv, check=False).stdout)
    return next(point["time_s"] for point in reported["points"] if point["nodes"] == 1)


def test_a_new_size_gets_a_time_of_its_own(sized):
    site = sized
    site.settled()
    ids = [site.cluster.sbatch(site.program, a_file(site, size)) for size in (*SIZES, *SIZES)]
    site.cluster.wait(*ids, accounted=True)
    site.learn()
    runs = runs_of(site)
    seen = [runs[one].inputs for one in ids]
    assert seen == [f"1Kdat={size}" for size in (*SIZES, *SIZES)]
    assert 15 <= advised_s(site, site.program, a_file(site, NEW)) <= 21
    assert advised_s(site, site.program, a_file(site, 50_000)) <= 5


def test_what_sbatch_names_is_seen_in_each_way(sized):
    """By its standard input, by --wrap, by a here-document; and nothing where nothing is named."""
    site = sized
    path = a_file(site, 30_000)
    plain = "#!/bin/sh\n#SBATCH -N1 -n1 -t5\n"
    quiet = site.write_script("quiet.sh", f"{plain}true\n")
    document = site.write_script("document.sh", f"{plain}cat <<END\nfile = '{path.name}'\nEND\n")
    held = ("-H", "-N1", "-n1", "-t5")
    for argv, inputs in {
        (*held, "-i", path, quiet): "1Kdat=30000",
        (*held, "--wrap", f"wc -c < {path}"): "1Kdat=30000",
        (*held, document): "1Kdat=30000",
        (*held, quiet): "",
    }.items():
        since = time.time()
        site.cluster.sbatch(*argv)
        assert site.decision(since_s=since).inputs == inputs, argv
    site.empty_queue()


def test_one_command_line_goes_by_what_its_input_is(sized):
    site, ids = sized, []
    program = site.write_script("same.sh", PROGRAM)
    for size in (*SIZES, *SIZES):
        ids.append(site.cluster.sbatch(program, a_file(site, size, "same.dat")))
        begun = site.cluster.layout.work / f"started.{ids[-1]}"
        wait_until(begun.exists, what="the job to have read its input")
    site.cluster.wait(*ids, accounted=True)
    site.learn()
    assert [runs_of(site)[one].inputs for one in ids] == [f"1Kdat={n}" for n in (*SIZES, *SIZES)]
    assert 15 <= advised_s(site, program, a_file(site, NEW, "same.dat")) <= 21
    assert advised_s(site, program, a_file(site, 50_000, "same.dat")) <= 5


def test_a_history_without_sizes_gets_them_afterwards(sized, tmp_path):
    site, store = sized, tmp_path / "own.db"
    settings = tmp_path / "own.yaml"
    settings.write_text(f"cluster: nimo\nstore: sqlite:///{store}\n")
    said = site.cluster.run("nimo", "ingest", "--stat", "--config", settings).stdout
    assert "sizes of input files: " in said
    site.cluster.run("nimo", "fit", "--config", settings)
    argv = ("--store", store, "--config", settings, site.program, a_file(site, NEW))
    assert 15 <= advised_s(site, *argv) <= 21
