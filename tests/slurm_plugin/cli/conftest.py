"""A store with a month of made-up history, and nimod on it."""

import fcntl
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from sacct_ingest.job_run import JobRun
from sacct_ingest.sources.run_source import Tally
from sacct_ingest.sources.sacct_text import read_text
from slurm_plugin.cli.nimo import main
from slurm_plugin.demo import sandbox as sites
from slurm_plugin.demo.history import applications, make_runs
from slurm_plugin.demo.sandbox import DemoSite
from slurm_plugin.nimod import client
from tests.processes import LONGEST_WAIT_S

NOW_S = time.time()


@pytest.fixture(scope="session")
def learned(tmp_path_factory: pytest.TempPathFactory, of_all_workers: Path) -> DemoSite:
    """Folder with history, configuration, job scripts of ada, and a store that was fitted.

    The first of pytest's workers that needs the store makes it, which takes 13 s.
    """
    site = DemoSite(tmp_path_factory.mktemp("site"), tmp_path_factory.mktemp("s") / "nimod.sock")
    store = of_all_workers / "learned.db"
    with (of_all_workers / "learned.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        now_s = store.stat().st_mtime if store.exists() else NOW_S
        sites.prepare(site, user="ada", now_s=now_s, rng=Random(5))
        if store.exists():
            shutil.copy(store, site.store)
        else:
            config = ["--config", str(site.config)]
            assert main(["ingest", *config, str(site.folder / sites.HISTORY)]) == 0
            assert main(["fit", "--workers", "1", *config]) == 0
            shutil.copy(site.store, store)
            os.utime(store, (now_s, now_s))
    return site


@pytest.fixture
def use(learned: DemoSite, monkeypatch: pytest.MonkeyPatch) -> DemoSite:
    """Make the learned store the configured one."""
    monkeypatch.setenv("NIMO_CONFIG", str(learned.config))
    monkeypatch.chdir(learned.folder)
    return learned


@pytest.fixture(scope="session")
def nimod(learned: DemoSite) -> Iterator[DemoSite]:
    """Nimod on the learned store, which sees the simulated cluster."""
    env = os.environ | {
        "NIMO_CONFIG": str(learned.config),
        "PATH": f"{learned.stand_ins}{os.pathsep}{os.environ['PATH']}",
    }
    code = "import sys; from slurm_plugin.cli.nimo import main; sys.exit(main(['serve']))"
    process = subprocess.Popen([sys.executable, "-c", code], env=env)
    try:
        _await(
            lambda: (
                client.status(learned.socket, timeout_s=LONGEST_WAIT_S).snapshot_age_s is not None
            )
        )
        yield learned
    finally:
        process.terminate()
        process.wait(timeout=LONGEST_WAIT_S)


def _await(holds: Callable[[], bool]) -> None:
    end_s = time.monotonic() + LONGEST_WAIT_S
    while time.monotonic() < end_s:
        try:
            if holds():
                return
        except client.Unreachable:
            pass
        time.sleep(0.05)
    pytest.fail("nimod did not start")


@pytest.fixture(scope="session")
def one_run() -> JobRun:
    """One made-up run."""
    made = make_runs(applications("ada"), end_s=int(NOW_S), rng=Random(1), days=3)
    return next(read_text(sites.sacct_text(made), Tally()))
