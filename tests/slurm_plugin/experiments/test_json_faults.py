"""Every JSON file that 'nimo lab plan' reads: a fault names file, place and fix."""

import json
from copy import deepcopy
from pathlib import Path

import pytest

from sacct_ingest.errors import ConfigError
from slurm_plugin.experiments.plan.run_times import fit_samples
from slurm_plugin.experiments.plan.workflow_file import parse, text_of
from tests.slurm_plugin.experiments.odd_values import ODD, paths
from tests.slurm_plugin.experiments.plan.test_foreign_workflows import DATA, SITE
from tests.slurm_plugin.experiments.test_yaml_faults import at, written

SAMPLED = """
storages: {home: {path: /home/ana}}
places: {batch: {storage: home, nodes: 1-8, attributes: {mhz: 2000}}}
tasks: {sort: {command: sort, samples: mine.json}}
"""
SAMPLE = {"attributes": {"mhz": 2000.0}, "utilisation": 0.5, "time_s": 9.0, "data_bytes": 1e6}
TRIAL = {
    "planned_s": 1, "key": "a", "attempt": 0, "job_name": "x", "attributes": {"mhz": 2000.0},
    "purpose": "", "why": "", "stage": "done", "elapsed_s": 9.0, "nodes": 1, "cpus": 1,
    "utilisation": 0.5, "data_bytes": 1000,
}  # fmt: skip
FLOW = {
    "name": "flow",
    "storages": {"home": {"path": "/home/ana"}},
    "places": {"batch": {"storage": "home", "nodes": "1-8"}},
    "files": {"raw": {"at": "home", "size": "1G"}},
    "tasks": {"sort": {"command": "sort {raw}", "reads": ["raw"], "run_time": {"1": 400}}},
}


def workflow():
    parse(text_of(Path("mine.json"), Path("site.yaml")), name="mine.json")


def plan():
    parse(text_of(Path("mine.json")), name="mine.json")


def samples():
    fit_samples(parse(SAMPLED, name="flow.yaml"), Path())


FILES = {
    "wfcommons-1.4": (json.loads((DATA / "wfcommons-1.4.json").read_text()), workflow),
    "wfcommons-1.5": (json.loads((DATA / "wfcommons-1.5.json").read_text()), workflow),
    "plan": (FLOW, plan),
    "samples": ([SAMPLE, {**deepcopy(SAMPLE), "utilisation": 0.25}], samples),
    "journal": ({"application": "sort", "trials": [TRIAL]}, samples),
}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("site.yaml").write_text(SITE)


def read(text, reader):
    """Give what is said of a file; empty: it was read."""
    Path("mine.json").write_text(text)
    try:
        reader()
    except ConfigError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("kind", FILES)
def test_a_key_that_is_given_twice_is_refused_with_its_place(kind):
    whole, reader = FILES[kind]
    assert read(json.dumps(whole), reader) == ""
    for path in ((), *paths(whole)):
        held = at(whole, path)
        for key in held if isinstance(held, dict) else ():
            changed = deepcopy(whole)
            at(changed, path)["given twice"] = held[key]
            text = json.dumps(changed).replace('"given twice"', json.dumps(key))
            place = written((*path, key))
            assert read(text, reader) == f"mine.json: {place}: it is given twice"


@pytest.mark.parametrize("kind", ["wfcommons-1.5", "samples"])
def test_of_keys_given_twice_within_each_other_the_outer_one_is_named(kind):
    _, reader = FILES[kind]
    inner = '{"a": 1, "a": 2}'
    text = f'{{"x": {inner}, "x": {inner}, "schemaVersion": "1.5"}}'
    assert read(text, reader) == "mine.json: x: it is given twice"


@pytest.mark.parametrize("kind", FILES)
def test_a_value_of_a_wrong_kind_is_refused_with_its_whole_place(kind):
    """What only other programs read of a workflow may be anything."""
    whole, reader = FILES[kind]
    for path in paths(whole):
        changed = deepcopy(whole)
        at(changed, path[:-1])[path[-1]] = [["x"]]
        text = read(json.dumps(changed), reader).removeprefix("mine.json: ")
        if UNREAD & {*path[-2:]}:
            assert text == "", path
        else:
            ends = (len(path), len(path) - 1)
            assert any(text.startswith(written(path[:end])) for end in ends), (path, text)
            assert text and "Expected" not in text and "`" not in text and "..." not in text


#: Keys of the WfCommons format that no plan needs.
UNREAD = {"children", "type", "makespanInSeconds", "executedAt"}


@pytest.mark.parametrize("value", ODD, ids=repr)
@pytest.mark.parametrize("kind", FILES)
def test_an_odd_value_anywhere_is_read_or_refused_with_the_file(kind, value):
    whole, reader = FILES[kind]
    for path in paths(whole):
        changed = deepcopy(whole)
        at(changed, path[:-1])[path[-1]] = value
        text = read(json.dumps(changed), reader)
        assert not text or text.startswith("mine.json: "), (path, text)


@pytest.mark.parametrize(
    ("kind", "deep"),
    [("samples", "["), ("samples", '{"a":'), ("plan", "["), ("wfcommons-1.5", '{"schemaVersion":')],
)
def test_values_nested_too_deeply_are_refused_with_the_file(kind, deep):
    text = read(deep * 100_000, FILES[kind][1])
    assert text.startswith("mine.json: ") and "nested too deeply" in text
