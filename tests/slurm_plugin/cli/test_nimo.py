import os
import pty
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

import slurm_plugin
from predictor.forecasts.forecasters import Criterion
from sacct_ingest.errors import ConfigError, NimoError, NoHistory, StoreError
from sacct_ingest.probes.benchmarks import PARTS
from sacct_ingest.records import Resource
from sacct_ingest.sources.saved import FORMATS
from sacct_ingest.store.rows import RetentionTimes
from slurm_plugin.cli.commands.ingest import LIVE
from slurm_plugin.cli.exit_status import INTERRUPTED, guarded
from slurm_plugin.cli.nimo import COMMANDS, EXPERIMENTS, command_parser, main
from slurm_plugin.cli.options import forecast, ingest, init, profile, prune, replay
from slurm_plugin.config.setting_types import Bystanders, Mode
from slurm_plugin.experiments.plan.slips import SLIP_S


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_has_help(name):
    assert all(action.help for action in command_parser(name)._actions)


@pytest.mark.parametrize(
    "places", [["cli/options/[a-z]*.py"], ["cli/commands/[a-z]*.py", "experiments/*_command.py"]]
)
def test_every_module_is_a_command(places):
    package = Path(slurm_plugin.__file__).parent
    paths = [path for place in places for path in package.glob(place)]
    modules = [path.stem.removesuffix("_command").replace("_", "-") for path in paths]
    assert sorted(modules) == sorted(name.removeprefix("lab ") for name in COMMANDS)


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (forecast.CRITERIA, Criterion),
        (forecast.RESOURCES, Resource),
        (ingest.FORMATS, FORMATS),
        (ingest.SOURCES, LIVE),
        (init.MODES, Mode),
        (profile.PARTS, PARTS),
        (prune.TABLES, [field.name for field in fields(RetentionTimes)]),
        (replay.BYSTANDERS, Bystanders),
    ],
)
def test_words_of_options_are_those_of_what_is_meant(words, meant):
    """Options say them once more: what they mean is heavy, and no help needs it."""
    assert sorted(words) == sorted(str(one) for one in meant)


def test_the_slip_of_a_plan_is_what_its_monitor_takes():
    assert command_parser("lab plan").parse_args(["flow.yaml"]).slip == SLIP_S


def shown(capsys, *words):
    with pytest.raises(SystemExit) as ended:
        main(words)
    out, err = capsys.readouterr()
    assert (ended.value.code, err) == (0, "")
    return out


def test_the_overview_lists_what_users_and_admins_need_and_that_of_lab_the_experiments(capsys):
    text, lab = shown(capsys), shown(capsys, "lab")
    for name, what in COMMANDS.items():
        experiment = name.startswith("lab ")
        line = f"  {name.removeprefix('lab ')} "
        assert (line in text and what in text) is not experiment
        assert (line in lab and what in lab) is experiment
    assert "  lab " in text
    assert shown(capsys, "help") == shown(capsys, "--help") == text
    assert shown(capsys, "help", "lab") == shown(capsys, "lab", "-h") == lab


@pytest.mark.parametrize("name", COMMANDS)
def test_help_is_asked_for_before_or_behind_a_command(name, capsys):
    words = name.split()
    assert shown(capsys, "help", *words) == shown(capsys, *words, "--help")


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_goes_on_under_its_old_name(name, capsys):
    assert shown(capsys, name, "--help") == shown(capsys, "lab", name, "--help")


@pytest.mark.parametrize(
    "arguments",
    [
        ["frobnicate"],
        ["fit", "--frobnicate"],
        ["lab", "fit"],
        ["help", "frobnicate"],
        ["--frob"],
        ["scale", "--runs=0", "job.sh"],
        ["scale", "--runs=-3", "job.sh"],
        ["scale", "--together=0", "job.sh"],
        ["lab", "profile", "--at-once=0"],
        ["lab", "plan", "--slip=-5", "flow.yaml"],
        ["lab", "plan", "--slip=nan", "flow.yaml"],
    ],
)
def test_wrong_usage_is_status_2_on_stderr(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    out, err = capsys.readouterr()
    assert ended.value.code == 2
    assert out == ""
    assert err.startswith("usage: nimo")


_SLOW = """
from slurm_plugin.cli.progress import progress
with progress("fitting", patience_s={waiting_s}) as report:
    for _ in range(3):
        report(1200, "curves")
"""


#: Ends when something is shown or nothing will be.
_SILENT = """
import threading
from slurm_plugin.cli.progress import waiting
with waiting("fitting", patience_s={waiting_s}):
    for thread in threading.enumerate():
        if isinstance(thread, threading.Timer):
            thread.join(None if {waiting_s} == 0 else 0)
"""


@pytest.mark.parametrize("code", [_SLOW, _SILENT])
@pytest.mark.parametrize(("waiting_s", "shown"), [(0.0, True), (60.0, False)])
def test_progress_is_shown_on_a_terminal_after_a_while(code, waiting_s, shown):
    main_end, command_end = pty.openpty()
    subprocess.run(
        [sys.executable, "-c", code.format(waiting_s=waiting_s)],
        stderr=command_end,
        check=True,
        env=os.environ | {"TERM": "xterm"},
    )
    os.close(command_end)
    try:
        text = os.read(main_end, 100_000)
    except OSError:  # Linux: nothing was written and the other end is closed
        text = b""
    os.close(main_end)
    assert (b"fitting" in text) is shown


def test_progress_is_silent_where_stderr_is_no_terminal():
    done = subprocess.run(
        [sys.executable, "-c", _SLOW.format(waiting_s=0.0)], capture_output=True, check=True
    )
    assert done.stderr == b""
    assert done.stdout == b""


@pytest.mark.parametrize(
    ("error", "status"), [(ConfigError, 78), (StoreError, 74), (NoHistory, 3), (NimoError, 1)]
)
def test_our_errors_are_one_line_and_their_status(error, status, capsys):
    def command():
        raise error("nimo.yaml: modes: 'enfroce' is no mode; did you mean 'enforce'?")

    assert guarded("nimo", command) == status
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "nimo: nimo.yaml: modes: 'enfroce' is no mode; did you mean 'enforce'?\n"


def test_a_mistake_in_the_program_keeps_its_traceback():
    def command():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        guarded("nimo", command)


def test_interrupted_by_the_user():
    def command():
        raise KeyboardInterrupt

    assert guarded("nimo", command) == INTERRUPTED


def test_the_status_of_a_command_is_passed_on():
    assert guarded("nimo", lambda: 4) == 4
