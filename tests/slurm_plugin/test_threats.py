"""What users write is data: in shells, in SQL, in logs; and the threat model names real tests."""

import ast
import logging
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from sacct_ingest.store import Store
from slurm_plugin.config.setting_types import Mode
from slurm_plugin.config.settings import Config
from slurm_plugin.decision.service import DecisionService
from slurm_plugin.text import log
from slurm_plugin.text.formatting import printable
from tests.slurm_plugin.made import NOW, cluster, job, stored, table

ROOT = Path(__file__).parents[2]
PACKAGES = ("sacct_ingest", "predictor", "slurm_plugin")
SOURCES = [path for name in PACKAGES for path in (ROOT / name).rglob("*.py")]
LUA = sorted((ROOT / "slurm_plugin" / "lua").glob("*.lua"))
HOSTILE = [
    "'; DROP TABLE decisions; --",
    '" OR 1=1 --',
    "$(touch {mark})`touch {mark}`;touch {mark}",
    "<script>alert(1)</script>",
    "line\nERROR slurm_plugin: forged\r\x1b[2J\x9b31m",
    "../../../etc/passwd\x00",
    "%s%n{0.__class__}${PATH}",
]
FORBIDDEN_CALLS = {"eval", "exec", "system", "popen", "getoutput", "getstatusoutput"}
ROW = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


def submit(**fields):
    advisor = DecisionService(Config(mode=Mode.ENFORCE), new_id=lambda: "0123456789ab")
    advisor.tables, advisor.cluster = stored(table()), cluster()
    answer, row = advisor.submit(job(**fields), via="job_submit", now_s=NOW)
    assert answer.ok
    assert row is not None
    return row


@pytest.mark.parametrize("text", HOSTILE)
def test_what_users_write_is_stored_as_it_is(tmp_path, text):
    text = text.replace("\0", "")
    row = submit(name=text, account=text, qos=text, work_dir=text)
    with Store.open(f"sqlite:///{tmp_path}/nimo.db", create=True) as store:
        store.decisions.add([row])
        ((remaining, _),) = store.decisions.with_outcomes()
    assert remaining == row
    assert remaining.work_dir == text


@pytest.mark.parametrize("text", HOSTILE)
def test_job_scripts_are_read_and_never_run(tmp_path, text):
    mark = tmp_path / "mark"
    text = text.replace("{mark}", str(mark))
    submit(script=f"#!/bin/sh\n#SBATCH --comment={text}\n{text}\n", comment=text, deadline="")
    assert not mark.exists()


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_nothing_is_given_to_a_shell_or_evaluated(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            called = getattr(node.func, "attr", getattr(node.func, "id", ""))
            assert called not in FORBIDDEN_CALLS, f"{path}:{node.lineno}"
            assert "shell" not in {keyword.arg for keyword in node.keywords}


#: All that is evaluated: compiled modules beside their sources, in the folder of the hooks.
COMPILED_COPY = 'loadfile(folder .. name .. ".lua" .. _VERSION:sub(5))'


@pytest.mark.parametrize("path", LUA, ids=lambda path: path.name)
def test_the_hooks_start_no_process_and_evaluate_nothing(path):
    text = path.read_text()
    if path.name == "cli_filter.lua":
        assert text.count(COMPILED_COPY) == 1
        text = text.replace(COMPILED_COPY, "")
    assert not re.search(r"os\.execute|io\.popen|loadstring|\bload\(|loadfile|dofile", text)


@pytest.mark.parametrize("text", HOSTILE)
def test_logs_cannot_be_forged(text):
    with pytest.raises(ValueError) as caught:
        int(text)
    info = (caught.type, caught.value, caught.tb)
    record = logging.makeLogRecord(
        {"name": "x", "levelname": "INFO", "msg": text, "exc_info": info}
    )
    first, *rest = log.OneLine("%(levelname)s %(name)s: %(message)s").format(record).split("\n")
    assert first.startswith("INFO x: ")
    assert all(line.startswith("  | ") for line in rest)
    assert all(line.isprintable() for line in [first, *rest])


#: ESC, its one-byte and one-character forms, what turns text around, what hides in it.
_DRIVING = "a\x1b[2J\x9b2J\x85\u202eb\u2066\u200f\ufeff\u2028\xad\U000e0041\x7f\rz"
_PRINTS = """
import sys
import logging
import msgspec
from rich.table import Table
from rich.text import Text
from sacct_ingest.errors import NimoError
from slurm_plugin.cli.exit_status import guarded
from slurm_plugin.text.log import set_up
from slurm_plugin.cli.command_context import print_parts
from slurm_plugin.text.streams import Heading, json_text, safe_console
text = msgspec.json.decode(sys.argv[1])
def command():
    set_up(logging.INFO)
    print(text)
    print(text, file=sys.stderr)
    sys.stdout.writelines([text, "\\n"])
    print(json_text({"name": text}))
    logging.info("%s", text)
    print_parts([Heading(text), text])
    table = Table(title=text)
    table.add_column(text)
    table.add_row(Text(text))
    safe_console(sys.stderr).print(table, text)
    if sys.argv[2] == "ours":
        raise NimoError(text)
    raise ValueError(text)
sys.exit(guarded("nimo", command))
"""


def test_terminals_cannot_be_driven():
    assert all(printable(text).isprintable() for text in [*HOSTILE, _DRIVING])


@pytest.mark.parametrize("error", ["ours", "another"])
def test_no_way_of_printing_drives_a_terminal(error):
    """Through print, logs, rich, JSON, errors and tracebacks, whatever the caller forgot."""
    argument = msgspec.json.encode(_DRIVING).decode()
    done = subprocess.run(
        [sys.executable, "-c", _PRINTS, argument, error], capture_output=True, check=False
    )
    assert done.returncode == 1
    for text in (done.stdout.decode(), done.stderr.decode()):
        assert text.count("a") > 3, text
        assert [line for line in text.split("\n") if not line.isprintable()] == []
    [line] = [line for line in done.stdout.decode().split("\n") if line.startswith("{")]
    assert msgspec.json.decode(line) == {"name": _DRIVING}


def test_commands_print_through_safe_streams_only():
    """Consoles of rich are made in one place, and JSON is printed by one function."""
    for path in (ROOT / "slurm_plugin").rglob("*.py"):
        text = path.read_text()
        if path.name != "streams.py":
            assert "Console(" not in text, path
        if path.is_relative_to(ROOT / "slurm_plugin" / "cli"):
            assert "json.encode(" not in text, path


@pytest.mark.parametrize("page", ["threat-model.md", "harm.md"])
def test_every_row_names_a_test_that_exists(page):
    lines = (ROOT / "docs" / page).read_text().splitlines()
    rows = [line for line in lines if line.startswith("| ") and "| test |" not in line]
    rows = [row for row in rows if not row.startswith("| ---")]
    assert len(rows) > 10
    for row in rows:
        named = ROW.findall(row)
        assert named, f"no test is named: {row}"
        for path, name in named:
            assert f"def {name}(" in (ROOT / path).read_text(), f"{path}::{name} is not there"
