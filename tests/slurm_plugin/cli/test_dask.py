"""Refits on real Dask clusters: on loopback, and as jobs of a real Slurm."""

import json
import os
import signal
import sys
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import dask.config
import pytest
from distributed import LocalCluster

from predictor.refit import refit
from sacct_ingest.errors import DaskError
from sacct_ingest.store import Store
from slurm_plugin.cli import dask_pool as pools
from slurm_plugin.cli.dask_pool import dask_pool
from slurm_plugin.cli.nimo import main
from tests.conftest import need_in_jobs
from tests.predictor.rows import applications


def workers(count=2):
    """Make a scheduler on loopback, each of its workers a process."""
    return LocalCluster(
        n_workers=count, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0"
    )


@pytest.fixture(scope="module")
def scheduler():
    with workers() as cluster:
        yield cluster.scheduler_address


@pytest.fixture
def store():
    with Store.open("sqlite://") as opened:
        opened.runs.add(applications(20))
        yield opened


@contextmanager
def environment(**values):
    with pytest.MonkeyPatch.context() as patch:
        for name, value in values.items():
            patch.setenv(name, value)
        yield


def test_dask_and_one_process_leave_the_same_tables(scheduler, store, monkeypatch):
    monkeypatch.setattr("predictor.refit.batches.BATCH", 8)  # several batches for each worker
    refit(store, now_s=5.0)  # makes the record that both go by
    alone = refit(store, now_s=5.0, whole=True)
    before = store.fits.all()
    with dask_pool(scheduler) as pool:
        assert pool.workers == 2
        spread = refit(store, now_s=5.0, whole=True, workers=pool.workers, pool=pool.executor)
    assert store.fits.all() == before
    assert replace(spread, seconds=0) == replace(alone, seconds=0)


def test_what_a_lost_worker_had_is_fitted_again(store, monkeypatch):
    monkeypatch.setattr("predictor.refit.batches.BATCH", 2)
    refit(store, now_s=5.0)
    refit(store, now_s=5.0, whole=True)
    before = store.fits.all()
    with workers() as cluster, dask_pool(cluster.scheduler_address) as pool:
        doomed = pool.executor.submit(os.getpid).result()
        killed = []

        def kill_once(_):
            if not killed:
                killed.append(doomed)
                os.kill(doomed, signal.SIGKILL)

        once_more = partial(refit, workers=pool.workers, pool=pool.executor)
        once_more(store, now_s=5.0, whole=True, progress=kill_once)
    assert killed
    assert store.fits.all() == before


def test_the_command_fits_on_dask(scheduler, tmp_path, capsys):
    url = f"sqlite:///{tmp_path / 'nimo.db'}"
    with Store.open(url, create=True) as opened:
        opened.runs.add(applications(5))
    assert main(["fit", "--store", url, "--dask", scheduler, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["curves"] == 5


def test_the_command_replays_on_dask(scheduler, tmp_path, capsys):
    url = f"sqlite:///{tmp_path / 'nimo.db'}"
    with Store.open(url, create=True) as opened:
        opened.runs.add(applications(5))
    argv = ["replay", "--store", url, "--json", "--price", "4", "--price", "8"]
    assert main([*argv, "--dask", scheduler]) == 0
    spread = json.loads(capsys.readouterr().out)
    assert main([*argv, "--workers", "1"]) == 0
    assert json.loads(capsys.readouterr().out) == spread


def test_a_scheduler_that_is_not_there_is_one_line(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(pools, "CONNECT_S", 0.5)
    Store.open(f"sqlite:///{tmp_path / 'nimo.db'}", create=True).close()
    store = str(tmp_path / "nimo.db")
    assert main(["fit", "--store", store, "--dask", "tcp://127.0.0.1:9"]) == 69
    assert "nimo: no Dask scheduler answers at tcp://127.0.0.1:9" in capsys.readouterr().err


def test_a_scheduler_without_workers_is_not_waited_for_for_ever():
    with (
        workers(0) as cluster,
        pytest.raises(DaskError, match="no Dask worker came"),
        dask_pool(cluster.scheduler_address, wait_s=0.2),
    ):
        pass


def test_workers_of_another_release_are_refused(scheduler, monkeypatch):
    monkeypatch.setattr(pools, "version", lambda _: "0.0.1")
    with pytest.raises(DaskError, match=r"this is 0\.0\.1"), dask_pool(scheduler):
        pass


def test_without_sbatch_no_worker_is_waited_for():
    with (
        environment(PATH="/nonexistent"),
        pytest.raises(DaskError, match="sbatch"),
        dask_pool("slurm"),
    ):
        pass


def test_workers_are_jobs_of_slurm(slurm, tmp_path, store):
    need_in_jobs(slurm, sys.executable)
    refit(store, now_s=5.0)  # makes the record that both go by
    refit(store, now_s=5.0, whole=True)
    before = store.fits.all()
    settings = {"interface": "lo", "job-directives-skip": ["--mem"], "death-timeout": 240}
    path = f"{slurm.layout.bin}{os.pathsep}{os.environ['PATH']}"
    with (
        environment(PATH=path, XDG_DATA_HOME=str(tmp_path)),
        dask.config.set({f"jobqueue.slurm.{name}": value for name, value in settings.items()}),
        dask_pool("slurm", jobs=2, wait_s=240) as pool,
    ):
        # Whoever reaches the scheduler, or reads its keys, runs code as the user who fits.
        assert pool.address.startswith("tls://127.0.0.1:")
        assert (tmp_path / "nimo" / "dask").stat().st_mode & 0o077 == 0
        remaining = pool.executor.submit(os.getenv, "MALLOC_TRIM_THRESHOLD_").result()
        assert remaining == str(128 * 2**20)
        refit(store, now_s=5.0, whole=True, workers=pool.workers, pool=pool.executor)
    assert store.fits.all() == before
    assert len(list((tmp_path / "nimo" / "dask").glob("*.out"))) == 2
