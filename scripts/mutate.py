"""Measure how many small faults the tests notice.

Each mutant (mutants.py) changes one module in one place, and is noticed where a test fails with it.
What counts for a group of modules is in ``scripts/mutation.toml``: its modules, the tests that have
to notice, and the survivors that change nothing, each with the reason.

Why not mutmut or cosmic-ray: mutmut leaves out constants of modules and of dataclasses, which hold
most of this project's numbers.  cosmic-ray starts a Python with NumPy and SciPy for each mutant,
which takes longer than the tests.  Here each mutant is a fork that has both.

Only tests that call the changed function run, the fastest first; all do where it runs on import.

A sample says how many are noticed at a fraction of the cost: ``--sample 80 --seed 2`` of a group,
``--each 60`` of each of its modules.
"""

import argparse
import ast
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import random
import resource
import sys
import tempfile
import tomllib
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any

from mutants import ROOT, Mutant, mutants

_OURS = {"sacct_ingest", "predictor", "slurm_plugin", "tests"}
TABLE = ROOT / "scripts" / "mutation.toml"


@dataclass(frozen=True, slots=True)
class Group:
    """Modules, and the tests that have to notice faults in them."""

    name: str
    modules: tuple[Path, ...]
    tests: tuple[str, ...]
    equivalent: tuple[tuple[str, str, str], ...]  #: file name, source, change

    def excuses(self, mutant: Mutant) -> bool:
        """Whether the mutant is listed as one that changes nothing."""
        return (mutant.path.name, mutant.source, mutant.change) in self.equivalent


def groups(table: Path = TABLE) -> dict[str, Group]:
    """Read all groups by name."""
    made = {}
    for name, row in tomllib.loads(table.read_text())["groups"].items():
        modules = sorted({path for glob in row["modules"] for path in ROOT.glob(glob)})
        tests = tuple(
            str(path.relative_to(ROOT)) for glob in row["tests"] for path in sorted(ROOT.glob(glob))
        )
        listed = tuple(
            (each["file"], each["source"], change)
            for each in row.get("equivalent", [])
            for change in each["changes"]
        )
        made[name] = Group(name, tuple(modules), tests, listed)
    return made


class _Loader(importlib.machinery.SourceFileLoader):
    """Load one module from a changed tree instead of its file."""

    tree: ast.Module

    def get_code(self, fullname: str) -> CodeType:
        del fullname
        return compile(self.tree, self.path, "exec")


class _Finder(importlib.abc.MetaPathFinder):
    """Find the mutated module before the ordinary finders do."""

    def __init__(self, mutant: Mutant) -> None:
        parts = mutant.path.relative_to(ROOT).with_suffix("").parts
        self._name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        self._mutant = mutant

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        del path, target
        if fullname != self._name:
            return None
        loader = _Loader(fullname, str(self._mutant.path))
        loader.tree = self._mutant.tree()
        return importlib.util.spec_from_file_location(fullname, self._mutant.path, loader=loader)


Calls = dict[tuple[str, int], list[str]]


class _Calls:
    """A plugin of pytest that notes which test calls which function of ours."""

    def __init__(self, modules: Sequence[Path]) -> None:
        self._modules = frozenset(map(str, modules))
        self._test = ""
        self._seconds: dict[str, float] = {}
        self.calls: Calls = {}

    def note(self, frame: FrameType, event: str, _: Any) -> None:
        """Note a call; as a profile function of Python."""
        code = frame.f_code
        if event == "call" and code.co_filename in self._modules:
            tests = self.calls.setdefault((code.co_filename, code.co_firstlineno), [])
            if self._test not in tests[-1:]:
                tests.append(self._test)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Note the test that begins."""
        self._test = nodeid

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Note how long a test takes."""
        self._seconds[report.nodeid] = self._seconds.get(report.nodeid, 0.0) + report.duration

    def rows(self) -> list[tuple[str, int, list[str]]]:
        """File, first line and tests of each function, the fastest test first."""
        return [
            (path, line, sorted(tests, key=lambda test: self._seconds.get(test, 0.0)))
            for (path, line), tests in self.calls.items()
        ]


def calls_of(group: Group, cpu_s: int) -> Calls | None:
    """Find the tests that call each function, by its file and first line; None where one fails."""
    with tempfile.NamedTemporaryFile() as file:
        if not passes(group.tests, None, cpu_s, noted=(group.modules, Path(file.name))):
            return None
        rows = json.loads(Path(file.name).read_text())
    return {(path, line): tests for path, line, tests in rows}


def chosen_tests(group: Group, mutant: Mutant, calls: Calls) -> Sequence[str]:
    """Choose the tests that can notice a mutant: all where it runs before any test."""
    tests = calls.get((str(mutant.path), mutant.function), [])
    return group.tests if not mutant.function or "" in tests else list(dict.fromkeys(tests))


def passes(
    tests: Sequence[str],
    mutant: Mutant | None,
    cpu_s: int,
    *,
    noted: tuple[Sequence[Path], Path] | None = None,
) -> bool:
    """Run the tests in a fork, with the mutant's module in place of its file.

    A fork that uses more than ``cpu_s`` seconds of CPU ends as one that noticed: the fault made
    something endless.  ``noted`` are modules, and a file for who calls their functions.
    """
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        return status == 0
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s + 5))
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
    quiet = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(quiet, stream)
    code = 1
    try:
        import pytest  # noqa: PLC0415 - in the fork alone

        for name in [n for n in sys.modules if n.partition(".")[0] in _OURS]:
            del sys.modules[name]  # what the parent has imported is not the mutant
        if mutant is not None:
            sys.meta_path.insert(0, _Finder(mutant))
        options = [*tests, "-x", "-q", "-n", "0", "-p", "no:cacheprovider"]
        plugin = _Calls(noted[0] if noted else ())
        sys.setprofile(plugin.note if noted else None)
        code = int(pytest.main(options, [plugin]))
        sys.setprofile(None)
        if noted:
            noted[1].write_text(json.dumps(plugin.rows()))
    finally:
        os._exit(code)


def _prepare() -> None:
    """Import what is large and not ours, once for all forks; keep generated examples few."""
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT))
    sys.dont_write_bytecode = True
    warnings.simplefilter("ignore")
    for name in ("numpy", "scipy.stats", "scipy.optimize", "scipy.special", "scipy.linalg",
                 "hypothesis.strategies", "msgspec", "pytest", "yaml", "sqlalchemy"):  # fmt: skip
        importlib.import_module(name)
    from hypothesis import settings  # noqa: PLC0415 - only the forks need it

    settings.register_profile("default", database=None, derandomize=True, max_examples=30)
    settings.load_profile("default")


def main() -> int:
    """Measure the groups; the exit status is 1 where one notices too little."""
    parser = argparse.ArgumentParser(description="measure how many small faults the tests notice")
    every = groups()
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=f"default: {' '.join(every)}")
    parser.add_argument("--sample", type=int, metavar="N", help="so many mutants of each group")
    parser.add_argument("--each", type=int, metavar="N", help="so many mutants of each module")
    parser.add_argument("--seed", type=int, default=1, help="of the sample")
    parser.add_argument("--file", nargs="*", help="only modules with one of these in their path")
    parser.add_argument("--least", type=float, default=85.0, metavar="PERCENT")
    parser.add_argument("--cpu", type=int, default=120, metavar="S", help="for one mutant at most")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the figures here as JSON")
    options = parser.parse_args()
    for name in options.groups:
        if name not in every:
            parser.error(f"no group is called {name!r}; there are {' '.join(every)}")
    _prepare()
    figures = [_measure(every[name], options) for name in options.groups or every]
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(figures, indent=1) + "\n")
    rows = [row for group in figures for row in (group, *group["modules"] * bool(options.each))]
    return int(any(row["noticed %"] < options.least for row in rows))


def _measure(group: Group, options: argparse.Namespace) -> dict[str, Any]:
    calls = calls_of(group, options.cpu)
    if calls is None:
        raise SystemExit(f"{group.name}: the tests fail without any mutant")
    every = [
        mutant
        for path in group.modules
        if not options.file or any(one in str(path) for one in options.file)
        for mutant in mutants(path)
    ]
    differing = [mutant for mutant in every if not group.excuses(mutant)]
    tried = _sample(differing, options)
    survived = []
    for mutant in tried:
        tests = chosen_tests(group, mutant, calls)
        if not tests or passes(tests, mutant, options.cpu):
            survived.append(mutant)
            print(f"survived: {mutant}", flush=True)
    modules = [
        _row(path.name, *([one for one in each if one.path == path] for each in
                          (every, differing, tried, survived)))
        for path in group.modules
        if any(one.path == path for one in tried)
    ]  # fmt: skip
    row = _row(group.name, every, differing, tried, survived)
    return {**row, "survived": list(map(str, survived)), "modules": modules}


def _sample(every: list[Mutant], options: argparse.Namespace) -> list[Mutant]:
    """Draw so many of a group, or of each of its modules, that a sample leaves out no module."""
    if options.each:
        paths = dict.fromkeys(one.path for one in every)
        return [
            one
            for path in paths
            for one in _drawn([m for m in every if m.path == path], options.each, options.seed)
        ]
    return every if options.sample is None else _drawn(every, options.sample, options.seed)


def _drawn(every: list[Mutant], count: int, seed: int) -> list[Mutant]:
    return random.Random(seed).sample(every, min(count, len(every)))


def _row(name: str, every: Sequence[Mutant], differing: Sequence[Mutant],
         tried: Sequence[Mutant], survived: Sequence[Mutant]) -> dict[str, Any]:  # fmt: skip
    """Give the figures of a group or a module, and print them."""
    share = 100 * (1 - len(survived) / max(len(tried), 1))
    equivalent = len(every) - len(differing)
    print(
        f"{name}: {share:.1f} % of {len(tried)} noticed, of {len(every)} mutants; "
        f"{equivalent} listed as equivalent",
        flush=True,
    )
    return {
        "name": name,
        "mutants": len(every),
        "equivalent": equivalent,
        "tried": len(tried),
        "noticed %": share,
    }


if __name__ == "__main__":
    sys.exit(main())
