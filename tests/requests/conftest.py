"""A site whose history is made up, so that its cluster is all that takes time."""

from __future__ import annotations

import getpass
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from predictor.memory import Memory, MemoryNeed
from predictor.prediction_table import PredictionTable
from predictor.refit import row_of
from sacct_ingest.runs.layout import Each, Layout, Unit
from sacct_ingest.store import Store
from tests.conftest import ClusterFactory
from tests.end_to_end.site import Site, site_on
from tests.requests import rest
from tests.slurm_plugin.made import amdahl, table

#: Says what the job finds around it; the name is that of the application with a curve.
SHAPES = """\
#!/bin/sh
#SBATCH --job-name=shapes --time=10
# The tasks of an array share one file.
[ "${SLURM_ARRAY_TASK_ID:-0}" = 0 ] || exit 0
env | grep -E '^SLURM_(NNODES|JOB_NUM_NODES|NTASKS|NPROCS|NTASKS_PER_NODE)='
echo STARTED=$(srun hostname | wc -l)
"""
#: Setting of the hooks with which cli_filter writes the options of commands.
REWRITING = "rewrite_in_cli_filter = yes\n"
#: Who submits over REST: slurmrestd serves neither root nor SlurmUser.
REST_USER = "nobody"


def curve(user: str) -> PredictionTable:
    """A hundred seconds serial, eight minutes parallel: a few nodes of eight are the best."""
    return table(
        amdahl(100.0, 480.0),
        level="name",
        key=f"{user}/shapes",
        label="shapes",
        owner=user,
        layout=Layout(gpus=None),  # of runs with as many GPUs as any request
        nodes=range(1, 9),
        observed=(1, 2, 4, 8),
    )


#: Programs whose run time depends on another size than nodes: unit, layout of their runs, sizes.
SIZED = {
    "threads": (Unit.CPUS, Layout(1, each=Each.JOB, nodes=1), range(1, 9)),
    "ranks": (Unit.CPUS, Layout(cpus=1, each=Each.TASK, nodes=1), range(1, 9)),
    "hungry": (Unit.CPUS, Layout(1, each=Each.JOB, nodes=1), range(1, 9)),
    "devices": (Unit.GPUS, Layout(cpus=1, gpus=None, each=Each.JOB, nodes=1), range(1, 3)),
}


_MIB = 2**20
#: Of a program whose runs completed with 400 MiB, and needed 100.
NEED = MemoryNeed(
    runs=9,
    predictions=9,
    inside=9,
    high=tuple(Memory(n, 100 * _MIB) for n in range(1, 9)),
    given=tuple(Memory(n, 400 * _MIB) for n in range(1, 9)),
)


def sized_curves(user: str) -> list[PredictionTable]:
    """Make a curve for each of these programs: its most helps most."""
    return [
        table(
            amdahl(1.0, 480.0),
            level="name",
            key=f"{user}/{name}",
            label=name,
            owner=user,
            unit=unit,
            layout=layout,
            nodes=sizes,
            observed=sizes,
            need=NEED if name == "hungry" else None,
        )
        for name, (unit, layout, sizes) in SIZED.items()
    ]


@pytest.fixture(scope="package")
def site(slurm_cluster: ClusterFactory) -> Iterator[Site]:
    """Eight nodes of eight CPUs and two GPUs; ``shapes`` has a curve; nimod enforces."""
    with site_on(slurm_cluster, cpus=8, gpus=2, conf=["ScronParameters=enable"]) as site:
        site.script = site.write_script("shapes.sh", SHAPES)
        with Store.open(site.nimod.store) as store:
            users = (getpass.getuser(), REST_USER)
            made = [one for user in users for one in (curve(user), *sized_curves(user))]
            store.fits.replace(list(map(row_of, made)))
        # These jobs end at once: an ingest of their run times must not switch the application off.
        site.run_nimod("enforce", snapshot={"interval_s": 0.3}, band={"ratio": 1e4})
        yield site


@pytest.fixture(scope="package")
def rest_socket(site: Site) -> Iterator[Path]:
    """Socket of a slurmrestd that submits jobs of `REST_USER`."""
    with rest.slurmrestd(site.cluster, REST_USER) as path:
        yield path


@contextmanager
def hook_settings(site: Site, lines: str) -> Iterator[Site]:
    """Add lines to the settings that hooks and commands read, on an idle cluster."""
    settings = site.cluster.layout.etc / "nimo_hook.conf"
    text = settings.read_text()
    settings.write_text(text + lines)
    try:
        site.empty_queue()
        yield site
    finally:
        settings.write_text(text)
        site.empty_queue()


@pytest.fixture(scope="module", params=["job_submit", "cli_filter"])
def asking(site: Site, request: pytest.FixtureRequest) -> Iterator[Site]:
    """Decisions when job_submit asks, or ahead, when cli_filter does."""
    ahead = f"ask_ahead = yes\n{REWRITING}" if request.param == "cli_filter" else ""
    with hook_settings(site, ahead):
        yield site


@pytest.fixture(scope="module")
def rewriting(site: Site) -> Iterator[Site]:
    """Only the commands of one module are rewritten."""
    with hook_settings(site, REWRITING):
        yield site
