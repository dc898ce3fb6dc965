"""What the fuzzer feeds takes its seeds, so that it does not fall behind the code."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "_fuzz_messages.py"


@pytest.fixture
def fuzzed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    spec = importlib.util.spec_from_file_location("fuzz_messages", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_nimod_answers_every_seed(fuzzed: ModuleType) -> None:
    target = fuzzed.messages()
    assert len(fuzzed.MESSAGES) > 3
    for line in fuzzed.MESSAGES:
        target(line)
