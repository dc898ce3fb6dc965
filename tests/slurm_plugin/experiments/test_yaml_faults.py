"""Every YAML file that the commands of 'nimo lab' read: a fault names file, place and fix."""

from copy import deepcopy
from pathlib import Path

import pytest
import yaml

from sacct_ingest.errors import ConfigError
from slurm_plugin.config.loader import parse as settings
from slurm_plugin.experiments.learn import description
from slurm_plugin.experiments.plan.workflow_file import parse, text_of
from tests.slurm_plugin.experiments.odd_values import ODD, paths
from tests.slurm_plugin.experiments.plan.test_foreign_workflows import DATA, SITE
from tests.slurm_plugin.experiments.plan.test_workflow_file import GOOD

LEARN = """
application: waits
command: 'sh job.sh {share} {input}'
limit: "5"
budget: 50
assignments: [{variables: {share: [1, 2, 3]}, cpus: [1, 2], inputs: [small]}]
inputs: [{name: small, size: 1G}]
learning: {target: 10, parts: [compute]}
"""
#: What 'nimo lab probe', 'profile', 'transfer' and 'scale' read.
SETTINGS = """
probes: {hosts: ["n1=10.0.0.1:7733"], key_file: /k, period_s: 60, disk_folder: /d}
benchmarks: {disk_folder: /d, tolerance: 0.1, type_by: [cpus]}
sharing: {copies: own}
"""


def plan(text):
    parse(text, name="mine.yaml")


def site(text):
    path = Path("mine.yaml")
    path.write_text(text)
    parse(text_of(DATA / "wfcommons-1.5.json", path), name="other.json")


FILES = {
    "learn": (LEARN, lambda text: description.parse(text, name="mine.yaml")),
    "plan": (GOOD.replace("at: home", "at: [home]"), plan),
    "site": (f"{SITE}run_times: {{count: 2min}}\n", site),
    "settings": (SETTINGS, lambda text: settings(text, name="mine.yaml")),
}
#: Mappings whose keys are the user's own words.
FREE = {"variables", "attributes", "storages", "places", "files", "tasks", "run_time", "run_times"}
NEEDED = {
    "learn": ["application", "limit", "budget", "assignments", "inputs[0].name"],
    "plan": ["storages", "places", "tasks", "storages.home.path", "links[0].from", "links[0].to",
             "places.slow.storage", "tasks.sort.command"],
    "site": ["storages", "places", "storages.home.path", "links[0].to", "places.fast.storage"],
}  # fmt: skip


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def at(document, path):
    for key in path:
        document = document[key]
    return document


def written(path):
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path).lstrip(".")


def reported(read, document):
    with pytest.raises(ConfigError) as caught:
        read(yaml.safe_dump(document))
    text = str(caught.value)
    assert text.startswith("mine.yaml: ")
    return text.removeprefix("mine.yaml: ")


@pytest.mark.parametrize("kind", FILES)
def test_a_value_of_a_wrong_kind_is_refused_with_its_place_and_what_to_give(kind):
    text, read = FILES[kind]
    read(text)
    whole = yaml.safe_load(text)
    for path in paths(whole):
        changed = deepcopy(whole)
        parent = at(changed, path[:-1])
        parent[path[-1]] = [["x"]]
        told = reported(read, changed)
        assert any(told.startswith(written(path[:end])) for end in (len(path), len(path) - 1)), path
        assert "Expected" not in told and "`" not in told and "..." not in told


@pytest.mark.parametrize("kind", FILES)
def test_an_unknown_key_is_refused_with_its_place_and_those_there_are(kind):
    text, read = FILES[kind]
    whole = yaml.safe_load(text)
    for path in ((), *paths(whole)):
        if isinstance(at(whole, path), dict) and not (path and path[-1] in FREE):
            changed = deepcopy(whole)
            at(changed, path)["sise"] = 1
            told = reported(read, changed)
            assert told.startswith(written((*path, "sise")) + ": unknown key; "), path
            assert "there are: " in told or "did you mean " in told


@pytest.mark.parametrize(
    ("kind", "place"), [(kind, one) for kind in NEEDED for one in NEEDED[kind]]
)
def test_a_missing_key_is_named_with_its_place(kind, place):
    text, read = FILES[kind]
    whole = yaml.safe_load(text)
    path = next(one for one in paths(whole) if written(one) == place)
    del at(whole, path[:-1])[path[-1]]
    assert reported(read, whole) == f"{place}: it is missing: give it"


@pytest.mark.parametrize("value", ODD, ids=repr)
@pytest.mark.parametrize("kind", FILES)
def test_an_odd_value_anywhere_is_read_or_refused_with_the_file(kind, value):
    text, read = FILES[kind]
    whole = yaml.safe_load(text)
    for path in paths(whole):
        changed = deepcopy(whole)
        at(changed, path[:-1])[path[-1]] = value
        try:
            read(yaml.safe_dump(changed))
        except ConfigError as error:
            assert str(error).startswith("mine.yaml: "), path
