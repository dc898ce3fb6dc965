"""An audit that could ask nobody does not pass."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[1] / "scripts" / "audit.py"
GOOD = {"name": "rich", "version": "15.0.0", "vulns": []}
SKIPPED = {"name": "rich", "skip_reason": "Dependency not found on PyPI"}
HOLE = {"id": "PYSEC-1", "fix_versions": ["15.0.1"]}
BAD = {"name": "rich", "version": "15.0.0", "vulns": [HOLE]}


@pytest.fixture
def audit() -> ModuleType:
    spec = importlib.util.spec_from_file_location("audit", SCRIPT)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


@pytest.mark.parametrize(
    ("packages", "status", "words"),
    [
        ([GOOD], 0, "1 packages looked up, 0 vulnerabilities"),
        ([GOOD, SKIPPED], 2, "1 of 2 packages could not be looked up"),
        ([], 2, "0 of 0 packages"),
        ([BAD, SKIPPED], 1, "PYSEC-1, fixed in 15.0.1"),
    ],
)
def test_what_was_not_looked_up_is_said(audit, capsys, packages, status, words):
    assert audit.judge(packages) == status
    said = capsys.readouterr()
    assert words in said.out + said.err


def test_no_answer_at_all_is_said(audit, capsys, monkeypatch, tmp_path):
    program = tmp_path / "pip-audit"
    program.write_text("#!/bin/sh\necho 'connection refused' >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert audit.main() == 2
    assert "nothing was audited: connection refused" in capsys.readouterr().err
