"""The mutants that no test can notice are mutants of the code as it is."""

import importlib
from pathlib import Path


def test_every_survivor_that_is_listed_is_still_a_mutant(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parent.parent / "scripts")
    mutate = importlib.import_module("mutate")
    for group in mutate.groups().values():
        made = {
            (m.path.name, m.source, m.change)
            for path in group.modules
            for m in mutate.mutants(path)
        }
        assert group.modules
        assert group.tests
        assert [each for each in group.equivalent if each not in made] == []
