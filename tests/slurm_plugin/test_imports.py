"""What the submission path must never load: each case in a fresh interpreter."""

import subprocess
import sys

import pytest

HEAVY = {"alembic", "asyncio", "distributed", "matplotlib", "numpy", "rich", "scipy", "sqlalchemy"}


def loaded_by(module: str) -> set[str]:
    code = f"import sys, {module}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    ("module", "allowed"),
    [
        ("slurm_plugin.nimod.client", set()),
        ("slurm_plugin.config.loader", set()),
        ("slurm_plugin.decision.policy", set()),
        ("slurm_plugin.decision.service", set()),
        ("slurm_plugin.nimod.loop", set()),
        ("slurm_plugin.wait_forecasts.forecasts", set()),
        ("slurm_plugin.wait_forecasts.queue_view", {"numpy"}),
        ("slurm_plugin.nimod.access", set()),
        ("slurm_plugin.nimod.store_link", {"alembic", "asyncio", "sqlalchemy"}),
        ("slurm_plugin.nimod.daemon", {"alembic", "asyncio", "sqlalchemy"}),
    ],
)
def test_nothing_heavy_is_loaded(module, allowed):
    assert loaded_by(module) & HEAVY <= allowed
