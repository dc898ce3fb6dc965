"""What the fuzzer feeds takes its seeds, so that it does not fall behind the code."""

import importlib.util
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "_fuzz_messages.py"


@pytest.fixture
def fuzzed(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    spec = importlib.util.spec_from_file_location("fuzz_messages", SCRIPT)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_nimod_answers_every_seed(fuzzed):
    target = fuzzed.messages()
    assert len(fuzzed.MESSAGES) > 3
    for line in fuzzed.MESSAGES:
        target(line)
