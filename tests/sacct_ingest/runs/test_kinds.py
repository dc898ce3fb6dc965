"""Whether the length of a job is a property of its work, as far as its texts show it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sacct_ingest.runs.reading import submission_of
from sacct_ingest.runs.submission import JobKind
from tests.engine_jobs import run_of, submissions


def kind(submit_line, name="job", comment=""):
    said = submission_of(name=name, comment=comment, submit_line=submit_line, work_dir="/home/ada")
    return said.kind


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("sbatch /tmp/tmpab12cd34.sh", "dask-worker"),
        ("sbatch --wrap=/opt/bin/python -m distributed.cli.dask_worker tcp://10.0.0.1:8786", "w"),
        ("sbatch --wrap=dask worker tcp://10.0.0.1:8786", "w"),
        ("sbatch x.sh", "parsl.htex.block-3.1700000000.123"),
        ("sbatch --wrap=process_worker_pool.py --debug", "x"),
        ("sbatch --wrap=hq worker start --idle-timeout 5m", "hq"),
        ("sbatch --wrap=ray start --address=10.0.0.1:6379 --block", "ray"),
    ],
)
def test_pilots(line, name):
    assert kind(line, name) is JobKind.PILOT


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("salloc -N 2 -t 60", "interactive"),
        ("salloc -n 4 bash", "x"),
        ("srun -n 1 --pty bash -l", "bash"),
        ("sbatch", "spawner-jupyterhub"),
        ("sbatch", "sys/dashboard/sys/bc_desktop"),
        ("sbatch --wrap=jupyter lab --no-browser --port 8888", "x"),
        ("sbatch lab.sh", "jupyterlab"),
        ("sbatch --wrap=code-server --auth none", "x"),
        ("sbatch --wrap=sleep infinity", "x"),
    ],
)
def test_sessions(line, name):
    assert kind(line, name) is JobKind.SESSION


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("sbatch run.sh", "wrf"),
        ("salloc -n 16 mpirun ./solve", "solve"),
        ("srun -n 16 ./solve", "solve"),
        ("sbatch --wrap=jupyter nbconvert --execute a.ipynb", "nb"),
        ("sbatch --wrap=sleep 600", "x"),
        ("sbatch train.sh --signal", "train"),
        ("sbatch bash.sh", "bashful"),
        ("", ""),
    ],
)
def test_work(line, name):
    assert kind(line, name) is JobKind.WORK


def test_of_engines_only_those_that_wait_for_work_or_users_are_no_work():
    kinds = {
        one["engine"]: kind(run_of(one).submit_line, run_of(one).name, run_of(one).comment)
        for one in submissions()
    }
    other = {engine for engine, found in kinds.items() if found is not JobKind.WORK}
    assert other == {"dask", "parsl", "batchspawner", "ondemand"}


@given(st.text(), st.text(), st.text())
def test_no_text_is_too_odd(line, name, comment):
    assert kind(line, name, comment) in JobKind
