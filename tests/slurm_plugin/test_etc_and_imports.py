"""The files that an admin copies."""

import os
import re
import subprocess
import sys
from pathlib import Path
from shutil import which

import pytest
from lupa.lua51 import LuaRuntime

from slurm_plugin.cli.nimo import COMMANDS

ROOT = Path(__file__).parents[2]
UNITS = sorted((ROOT / "etc" / "systemd").iterdir())


def test_the_sample_settings_of_the_hooks_are_their_defaults():
    lua = LuaRuntime()
    ours = lua.execute((ROOT / "slurm_plugin" / "lua" / "nimo_settings.lua").read_text())
    settings, complaints = ours.read(str(ROOT / "etc" / "nimo_hook.conf"))
    assert list(complaints.values()) == []
    assert dict(settings) == dict(ours.DEFAULTS)


@pytest.mark.skipif(which("systemd-analyze") is None, reason="systemd-analyze is not installed")
@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.name)
def test_systemd_understands_every_line_of_the_units(unit):
    done = subprocess.run(
        ["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False
    )
    wrong = [line for line in done.stderr.splitlines() if unit.name in line]
    assert [line for line in wrong if "is not executable" not in line] == []


@pytest.mark.skipif(which("systemd-analyze") is None, reason="systemd-analyze is not installed")
@pytest.mark.parametrize("name", [path.name for path in UNITS if path.suffix == ".service"])
def test_services_may_do_little_more_than_they_must(name):
    unit = ROOT / "etc" / "systemd" / name
    argv = ["systemd-analyze", "security", "--offline=yes", unit]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if "unrecognized option" in done.stderr:
        pytest.skip("systemd-analyze is older than 250")
    exposure = re.search(r"Overall exposure level for \S+: ([\d.]+)", done.stdout)
    assert exposure is not None, done.stderr
    assert float(exposure[1]) <= 2.0
    assert re.search(r"^User=(?!root)\w", unit.read_text(), re.MULTILINE)


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.name)
def test_no_service_outlives_others_where_memory_is_short(unit):
    assert not re.search(r"^OOMScoreAdjust=-", unit.read_text(), re.MULTILINE)


@pytest.mark.parametrize("name", [path.name for path in UNITS if path.suffix == ".service"])
def test_each_service_has_bounds_of_its_own(name):
    text = (ROOT / "etc" / "systemd" / name).read_text()
    assert re.search(r"^MemoryMax=\d+[MG%]$", text, re.MULTILINE)
    assert re.search(r"^TasksMax=\d+$", text, re.MULTILINE)


def test_nimod_stays_where_the_process_that_answers_goes():
    text = (ROOT / "etc" / "systemd" / "nimod.service").read_text()
    assert "\nOOMPolicy=continue\n" in text


HEAVY = {"alembic", "asyncio", "distributed", "matplotlib", "numpy", "rich", "scipy", "sqlalchemy"}


#: Of the project, at a help: the frame of commands, and the options of one.
MOST_MODULES = 20


def loaded_by(module):
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
        ("slurm_plugin.wait_forecasts.simulated_queue", {"numpy"}),
        ("slurm_plugin.nimod.access", set()),
        ("slurm_plugin.nimod.store_link", {"alembic", "asyncio", "sqlalchemy"}),
        ("slurm_plugin.nimod.daemon", {"alembic", "asyncio", "sqlalchemy"}),
    ],
)
def test_nothing_heavy_is_loaded(module, allowed):
    assert loaded_by(module) & HEAVY <= allowed


HELPS = [[*name.split(), "--help"] for name in ("", "advise", *COMMANDS)]


@pytest.mark.parametrize("words", [*HELPS, ["hook-path"]])
def test_help_loads_options_alone(words):
    code = (
        "import sys; from slurm_plugin.cli.nimo import main\n"
        "try: main(sys.argv[1:])\n"
        "finally: print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, check=True
    )
    assert ("usage" if words[-1] == "--help" else "slurm_plugin/lua") in done.stdout.lower()
    loaded = done.stderr.split()
    slow = {"dataclasses", "json", "msgspec", "predictor", "socket", "subprocess", "yaml"}
    assert {name.partition(".")[0] for name in loaded} & (HEAVY | slow) == set()
    own = [name for name in loaded if name.startswith(("sacct_ingest.", "slurm_plugin."))]
    assert len(own) <= MOST_MODULES, own


#: Loaded where a command needs it alone: each takes as long as Python's own start, or longer.
SLOW_ALONE = {"alembic", "asyncio", "numpy", "predictor", "rich", "scipy", "sqlalchemy"}


@pytest.mark.parametrize(
    ("words", "never"),
    [
        (["why"], {"msgspec", "yaml", "slurm_plugin.cli.waiting_jobs"}),
        (["limits"], {"yaml", "slurm_plugin.slurm.cluster_state"}),
        (["config"], {"statistics", "slurm_plugin.evaluation.costs"}),
        (["status"], {"yaml", "slurm_plugin.protocol.advice_messages"}),
        (["wait"], {"yaml", "slurm_plugin.config.settings"}),
    ],
)
def test_an_ordinary_run_loads_no_more_than_it_needs(tmp_path, words, never):
    """Nobody waits, no limit is planned with, and nimod does not run."""
    squeue = tmp_path / "squeue"
    squeue.write_text("#!/bin/sh\n")
    squeue.chmod(0o755)
    (tmp_path / "nimo.yaml").write_text(f"socket: {tmp_path}/nimod.sock\n")
    environment = os.environ | {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "NIMO_CONFIG": str(tmp_path / "nimo.yaml"),
        "XDG_DATA_HOME": str(tmp_path),
    }
    # What comes after nimod has not answered is another way.
    code = (
        "import sys\n"
        "from slurm_plugin.nimod import line_client\n"
        "def nobody(*_):\n"
        "    print(*sys.modules, file=sys.stderr)\n"
        "    sys.stderr.flush()\n"
        "    raise SystemExit(0)\n"
        "line_client._line = nobody\n"
        "from slurm_plugin.cli.nimo import main\n"
        "main(sys.argv[1:])\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    loaded = set(done.stderr.split())
    assert "slurm_plugin.cli.nimo" in loaded
    assert loaded & (SLOW_ALONE | never) == set()
