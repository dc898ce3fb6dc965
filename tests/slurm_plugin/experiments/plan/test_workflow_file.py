"""Reading workflows: what they may say, and what is told of mistakes."""

import pytest

from sacct_ingest.errors import ConfigError
from slurm_plugin.experiments.plan.workflow import NetworkLink
from slurm_plugin.experiments.plan.workflow_file import parse
from tests.slurm_plugin.experiments.odd_values import ODD, with_value

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


def test_all_that_it_says_is_read():
    flow = parse(GOOD, name="my flow.yaml")
    assert flow.name == "my-flow"
    assert flow.storages["home"].free_bytes == 10 * 2**30
    back = flow.links.get(("scratch", "home"))
    assert (back.bandwidth_bytes_per_s, back.latency_s, back.streams) == (200 * 2**20, 0.002, 2)
    assert (flow.places["slow"].low, flow.places["slow"].high) == (1, 8)
    assert (flow.places["fast"].partition, flow.places["fast"].speed) == ("gpu", 2.0)
    assert flow.tasks["sort"].run_times_s == {1: 5400.0, 4: 1800.0}
    assert flow.tasks["end"].run_times_s == {1: 90.0}
    assert flow.before["end"] == ("sort",)
    assert list(flow.tasks) == ["sort", "end"]


@pytest.mark.parametrize(
    ("old", "new", "reported"),
    [
        ("size: 2G", "size: many", "f.yaml: files.raw.size: not a size: 'many'"),
        ("size: 2G", "sise: 2G", "f.yaml: files.raw.sise: unknown key; did you mean 'size'?"),
        ("reads: [raw]", "reads: [row]", "f.yaml: tasks.sort.reads: 'row' is not among the files"),
        ("storage: home,", "storage: hole,", "places.slow.storage: 'hole' is not among"),
        ("to: scratch", "to: tape", "links: home to tape: 'tape' is not among the storages"),
        ("nodes: 1-8", "nodes: 8-1", "places.slow.nodes: '8-1' is no range such as 2-8"),
        ("latency: 2ms", "latency: soon", "links[0].latency: 'soon' is no time such as"),
        ("speed: 2", "speed: 0", "places.fast: speed: has to be above zero"),
        ("at: home, ", "", "sort reads raw, which no task writes"),
        ("at: home, ", "at: [home, tape], ", "f.yaml: files.raw.at: 'tape' is not among the"),
        ("at: home, ", "at: 3, ", "f.yaml: files.raw.at[0]: give text, not a whole number"),
        ("at: home, ", "at: [], ", "sort reads raw, which no task writes"),
        ("deliver: home", "at: home", "out is there already, and sort writes it"),
        ("writes: [out], ", "writes: [out], after: [end], ", "in a circle"),
        ("  end:", "  the end:", "tasks.the end: a name is of letters"),
        ("run_time: 90", "run_time: 0", "run_time: node counts and times have to be above zero"),
        ("storages:", "storages", "f.yaml: "),
        ("after: [sort], ", "writes: [out], ", "out is written by two tasks, sort and end"),
        ("streams: 2", "streams: 0", "streams: 0 copies at a time are none"),
        ("bandwidth: 200M", "bandwidth: 0", "bandwidth: has to be above zero"),
        ("speed: 2", "speed: -1", "speed: has to be above zero"),
        ("speed: 2", "speed: .inf", "places.fast: speed: has to be above zero and finite"),
        ("speed: 2", "speed: .nan", "speed: has to be above zero"),
        ("speed: 2", "attributes: {mhz: .inf}", "places.fast: attributes: mhz has to be above"),
        ("speed: 2", "attributes: {a: 1, mhz: .nan}", "attributes: mhz has to be above zero"),
        ("speed: 2", "attributes: {mhz: 0}", "attributes: mhz has to be above zero"),
        ("{1: 1.5h, 4: 30min}", "{0: 1.5h, 4: 30min}", "run_time: node counts and times"),
        ("{1: 1.5h, 4: 30min}", "{1: 1.5h, 4: soon}", "tasks.sort.run_time: 'soon' is no time"),
        ("deliver: home", "deliver: tape", "files.out.deliver: 'tape' is not among the storages"),
    ],
)
def test_a_mistake_is_reported_with_its_place(old, new, reported):
    assert old in GOOD
    with pytest.raises(ConfigError) as raised:
        parse(GOOD.replace(old, new, 1), name="f.yaml")
    assert reported in str(raised.value)


@pytest.mark.parametrize("value", ODD, ids=repr)
def test_an_odd_value_anywhere_is_read_or_refused_with_its_section(value):
    for place, text in with_value(GOOD, value):
        try:
            parse(text, name="f.yaml")
        except ConfigError as error:
            assert str(error).startswith("f.yaml: "), place


@pytest.mark.parametrize(
    ("written", "low", "high"), [("nodes: 4", 4, 4), ('nodes: "4-4"', 4, 4), ("speed: 1", 1, None)]
)
def test_ranges_of_nodes(written, low, high):
    place = parse(GOOD.replace("nodes: 1-8", written), name="w").places["slow"]
    assert (place.low, place.high) == (low, high)


@pytest.mark.parametrize("written", ["0", "0-3", "a", "1-b", "-3", "3-2", "1.5"])
def test_what_is_no_range_of_nodes(written):
    with pytest.raises(ConfigError, match="is no range such as 2-8"):
        parse(GOOD.replace("1-8", f'"{written}"'), name="w")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90.0), ("2s", 2.0), ("3ms", 0.003), ("5us", 5e-6), ("2m", 120.0), ("2min", 120.0),
     ("1.5h", 5400.0), ('" 20 min "', 1200.0)],
)  # fmt: skip
def test_times_have_units(text, seconds):
    flow = parse(GOOD.replace("run_time: 90", f"run_time: {text}"), name="w")
    assert flow.tasks["end"].run_times_s == {1: pytest.approx(seconds)}


def test_a_single_run_time_is_that_of_the_fewest_nodes():
    flow = parse(GOOD.replace("run_time: 90", "run_time: 90, nodes: 3-5"), name="w")
    assert flow.tasks["end"].run_times_s == {3: 90.0}


def test_a_link_by_itself_opens_files_and_makes_one_copy_at_a_time():
    link = NetworkLink(source="a", target="b")
    assert (link.remote, link.streams, link.latency_s) == (True, 1, None)


def test_links_go_both_ways_or_one_and_have_defaults():
    flow = parse(GOOD, name="w")
    assert set(flow.links) == {("home", "scratch"), ("scratch", "home")}
    one = parse(GOOD.replace("streams: 2", "one_way: true"), name="w")
    assert set(one.links) == {("home", "scratch")}
    link = one.links.get(("home", "scratch"))
    assert (link.streams, link.remote, link.copy) == (1, True, "cp -a -- {source} {target}")
    plain = parse(GOOD.replace(", latency: 2ms, streams: 2", ""), name="w").links.get(
        ("home", "scratch")
    )
    assert plain.latency_s is None
    unmeasured = parse(GOOD.replace("bandwidth: 200M, ", ""), name="w").links.get(
        ("home", "scratch")
    )
    assert unmeasured.bandwidth_bytes_per_s is None


def test_one_copy_at_a_time_is_the_least_and_storages_have_room_without_end():
    flow = parse(GOOD.replace("streams: 2", "streams: 1"), name="w")
    link = flow.links.get(("home", "scratch"))
    assert link.streams == 1
    assert flow.storages["scratch"].free_bytes == float("inf")
    assert flow.files["out"].size_bytes == 0.0


@pytest.mark.parametrize("section", ["storages", "places", "tasks"])
def test_sections_that_are_needed(section):
    lines = [line for line in GOOD.splitlines() if line.strip()]
    remaining = [line for line in lines if not line.startswith((section, "  ", "links", "places"))]
    text = "\n".join([*remaining, f"{section}: {{}}"])
    for other in {"storages", "places", "tasks"} - {section}:
        if not any(line.startswith(other) for line in remaining):
            text += f"\n{other}: {{}}"
    with pytest.raises(ConfigError, match=r"give at least one|is not among"):
        parse(text.replace("tasks:\n", "tasks: {}\n"), name="w")
