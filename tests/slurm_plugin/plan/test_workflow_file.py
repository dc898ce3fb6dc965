"""Reading workflows: what they may say, and what is told of mistakes."""

from __future__ import annotations

import pytest

from sacct_ingest.errors import ConfigError
from slurm_plugin.plan.workflow_file import parse

GOOD = """
deadline: now+2hours
storages: {home: {path: /home/ana, free: 10G}, scratch: {path: /scratch}}
links: [{from: home, to: scratch, bandwidth: 200M, latency: 2ms, streams: 2}]
places: {slow: {storage: home, nodes: 1-8}, fast: {storage: scratch, partition: gpu, speed: 2}}
files: {raw: {at: home, size: 2G}, out: {deliver: home}}
tasks:
  sort: {command: "sort {raw} > {out}", reads: [raw], writes: [out], run_time: {1: 1.5h, 4: 30min}}
  end: {command: "true", after: [sort], run_time: 90}
"""


def test_all_that_it_says_is_read() -> None:
    flow = parse(GOOD, name="my flow.yaml")
    assert flow.name == "my-flow"
    assert flow.storages["home"].free_bytes == 10 * 2**30
    back = flow.link("scratch", "home")
    assert back is not None
    assert (back.bandwidth_bytes_per_s, back.latency_s, back.streams) == (200 * 2**20, 0.002, 2)
    assert (flow.places["slow"].low, flow.places["slow"].high) == (1, 8)
    assert (flow.places["fast"].partition, flow.places["fast"].speed) == ("gpu", 2.0)
    assert flow.tasks["sort"].run_times_s == {1: 5400.0, 4: 1800.0}
    assert flow.tasks["end"].run_times_s == {1: 90.0}
    assert flow.before["end"] == ("sort",)
    assert list(flow.tasks) == ["sort", "end"]


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("size: 2G", "size: many", "f.yaml: files.raw: not a size: 'many'"),
        ("size: 2G", "sise: 2G", "f.yaml: files.raw: sise: unknown key; did you mean 'size'?"),
        ("reads: [raw]", "reads: [row]", "f.yaml: tasks.sort.reads: 'row' is not among the files"),
        ("storage: home,", "storage: hole,", "places.slow.storage: 'hole' is not among"),
        ("to: scratch", "to: tape", "links: home to tape: 'tape' is not among the storages"),
        ("nodes: 1-8", "nodes: 8-1", "places.slow: nodes: '8-1' is no range such as 2-8"),
        ("latency: 2ms", "latency: soon", "links[0]: 'soon' is no time such as"),
        ("speed: 2", "speed: 0", "places.fast: speed: has to be above zero"),
        ("at: home, ", "", "sort reads raw, which no task writes"),
        ("deliver: home", "at: home", "out is there already, and sort writes it"),
        ("writes: [out], ", "writes: [out], after: [end], ", "in a circle"),
        ("  end:", "  the end:", "tasks.the end: a name is of letters"),
        ("run_time: 90", "run_time: 0", "run_time: node counts and times have to be above zero"),
        ("storages:", "storages", "f.yaml: "),
        ("after: [sort], ", "writes: [out], ", "out is written by two tasks, sort and end"),
    ],
)
def test_a_mistake_is_told_with_its_place(old: str, new: str, told: str) -> None:
    assert old in GOOD
    with pytest.raises(ConfigError) as raised:
        parse(GOOD.replace(old, new, 1), name="f.yaml")
    assert told in str(raised.value)
