"""Fixtures: the hooks in each Lua runtime that lupa brings."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.lua.hooks import VERSIONS, Hooks

Load = Callable[..., Hooks]


@pytest.fixture(params=VERSIONS)
def runtime(request: pytest.FixtureRequest, tmp_path: Path) -> Load:
    """Make hooks with lines for nimo_hook.conf, without loading them."""
    pytest.importorskip(f"lupa.{request.param}")

    def make(conf: str = "") -> Hooks:
        folder = tmp_path / f"hooks{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        return Hooks(request.param, folder, conf)

    return make


@pytest.fixture
def hooks(runtime: Load) -> Hooks:
    """The job_submit hook with the default settings."""
    return runtime().load()
