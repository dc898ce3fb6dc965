"""What a plan takes of the site: bounds, figures of nodes, its own jobs in the queue."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from pathlib import Path

import pytest

from predictor.types import Verdict
from sacct_ingest.errors import ConfigError
from sacct_ingest.records import NodeProfile
from slurm_plugin.config import Config, Snapshot, Source
from slurm_plugin.plan import site, state_file
from slurm_plugin.plan.bounds import TaskBounds, room_for
from slurm_plugin.plan.estimates import GUESSED, TransferPath
from slurm_plugin.plan.run_times import BANDWIDTH, LATENCY, Copies, _worst
from slurm_plugin.plan.workflow import PlanSite, Task, Workflow
from slurm_plugin.plan.workflow_file import parse
from slurm_plugin.slurm.availability import profile
from slurm_plugin.slurm.cluster_state import AccessRules
from slurm_plugin.slurm.limits import Association, LimitTables
from slurm_plugin.slurm.node_pool import NodeGroup, NodePool
from slurm_plugin.slurm.raw_state import RawJob, RawState
from tests.slurm_plugin.made import cluster, partition, table
from tests.slurm_plugin.made import job as request
from tests.slurm_plugin.plan.made import NOW, problem
from tests.slurm_plugin.plan.test_monitor import given as submitted
from tests.slurm_plugin.plan.test_monitor import job

TEXT = """
storages: {s: {path: /s}}
places: {a: {storage: s}, b: {storage: s, attributes: {mem_latency_s: 7}}, c: {storage: s}}
tasks: {x: {command: x, run_time: 10}}
"""


def flow(text: str = TEXT) -> Workflow:
    return parse(text, name="w.yaml")


def node(name: str, cpu: float | None, node_type: str = "t", on: str = "pine") -> NodeProfile:
    return NodeProfile(
        cluster=on, node=name, node_type=node_type, at_s=NOW, cpu_all_events_per_s=cpu,
        mem_latency_s=1e-7,
    )  # fmt: skip


def slurm(**nodes: str) -> site._Slurm:
    every = {place: frozenset(("pine", n) for n in own) for place, own in nodes.items()}
    return site._Slurm(free={}, nodes=every)


def test_bounds_are_those_of_partition_and_request() -> None:
    part = partition(max_nodes=6, min_nodes=2, max_time_s=3600.0)
    made = room_for(cluster(part), request(partition="batch", min_nodes=1, max_nodes=None))
    assert made == TaskBounds(2, 6, 3600.0, "MaxNodes of partition batch")
    free = room_for(cluster(partition()), request(partition="batch", max_nodes=None))
    assert free == TaskBounds(1, 32, inf, "")


@pytest.mark.parametrize(
    ("part", "why"),
    [
        (partition(open=False), "partition batch is not up"),
        (partition(admits=AccessRules(accounts=frozenset({"physics"}))),
         "partition batch does not admit chem"),
        (partition(admits=AccessRules(qos=frozenset({"long"}))),
         "partition batch does not admit chem"),
        (partition(name="other"), "partition batch is not up"),
    ],
)  # fmt: skip
def test_a_partition_that_takes_no_such_task_gives_no_node(part: object, why: str) -> None:
    asked = request(partition="batch", account="chem")
    assert room_for(cluster(part), asked) == TaskBounds(high=0, why=why)  # type: ignore[arg-type]
    nobody = room_for(cluster(part), request(partition="batch"))  # type: ignore[arg-type]
    if "chem" in why and part.admits.qos:  # type: ignore[attr-defined]
        assert nobody.why == "partition batch does not admit normal"


def test_the_qos_of_an_association_may_come_in() -> None:
    part = partition(admits=AccessRules(qos=frozenset({"long"})))
    tables = LimitTables(associations={("chem", "alice", ""): Association(default_qos="long")})
    look = cluster(part)
    look = type(look)(
        name="pine", taken_s=NOW, partitions={"batch": part}, default_partition="batch",
        limits=tables,
    )  # fmt: skip
    assert room_for(look, request(partition="batch", account="chem")).high == 32


def test_places_have_the_medians_of_their_nodes_and_what_the_workflow_says() -> None:
    profiles = [node("1", 10.0), node("2", 20.0), node("3", None), node("4", 90.0),
                node("1", 999.0, on="oak")]  # fmt: skip
    made = site._with_figures(flow(), slurm(a="123", b="4"), profiles)
    assert made.places["a"].attributes == {"cpu_all_events_per_s": 15.0, "mem_latency_s": 1e-7}
    assert made.places["b"].attributes == {"cpu_all_events_per_s": 90.0, "mem_latency_s": 7}
    assert made.places["c"].attributes == {}
    # Speeds are against the first place in the file.
    assert site._speeds(made) == {"a": 1.0, "b": 6.0}
    assert site._speeds(flow()) == {}
    unmeasured = site._with_figures(flow(), slurm(b="4"), profiles)
    assert site._speeds(unmeasured) == {}


def test_a_place_has_a_node_type_where_all_its_nodes_are_of_one() -> None:
    profiles = [node("1", 1.0, "old"), node("2", 1.0, "old"), node("3", 1.0, "new")]
    assert site._types(slurm(a="12", b="23", c=""), profiles) == {"a": "old"}


def test_idle_clusters_have_the_nodes_that_the_workflow_says() -> None:
    text = TEXT.replace("{storage: s}", "{storage: s, nodes: 2-5}")
    text = text.replace("{storage: s, attributes", "{storage: s, nodes: 3, attributes")
    made = site._empty(flow(text), NOW)
    assert made.free["a"] == profile([(NOW, 5)])
    assert made.free["b"] == profile([(NOW, 3)])
    with pytest.raises(ConfigError, match=r"places\.a: --empty does not ask Slurm"):
        site._empty(flow(), NOW)


def test_pyslurm_reads_the_local_cluster_alone() -> None:
    for source, far in (
        (Source.AUTO, Source.TEXT),
        (Source.PYSLURM, Source.TEXT),
        (Source.JSON, Source.JSON),
    ):
        config = Config(snapshot=Snapshot(source=source))
        assert site._how(config, "").source is source
        assert site._how(config, "big").source is far


def test_a_profile_begins_now() -> None:
    place = PlanSite(name="a", partition="batch", storage="s")
    look = cluster(partition(profile([(NOW - 9, 4), (NOW + 60, 2)])))
    made = site._nodes_over_time(look, place, [request()], NOW)
    assert (made.times_s, made.free) == ((NOW, NOW + 60), (4, 6))
    other = replace(place, partition="gpu")
    with pytest.raises(ConfigError, match=r"places\.a: no partition 'gpu'; there are batch"):
        site._nodes_over_time(look, other, [request()], NOW)


def test_nodes_of_a_place_are_those_of_its_pool() -> None:
    group = NodeGroup(cpus=4, mem_mib=0, steps=())
    pool = NodePool(now_s=NOW, groups={group: ("n1", "n2")})
    place = PlanSite(name="a", partition="batch", storage="s")
    assert site._nodes(cluster(partition(pool=pool)), place) == {("pine", "n1"), ("pine", "n2")}
    assert site._nodes(cluster(partition()), place) == frozenset()
    gone = replace(place, partition="gpu")
    assert site._nodes(cluster(partition(pool=pool)), gone) == frozenset()


def test_a_task_asks_for_its_fewest_nodes_with_its_own_options() -> None:
    place = PlanSite(name="a", partition="batch", storage="s")
    made = site._request(Task(name="x", low=3, options=("--account=chem",)), place, NOW)
    assert (made.min_nodes, made.partition, made.account) == (3, "batch", "chem")
    with pytest.raises(ConfigError, match=r"tasks\.x\.sbatch: "):
        site._request(Task(name="x", options=("--mem=lots",)), place, NOW)


def test_own_jobs_leave_the_queue_and_end_when_they_are_expected_to() -> None:
    """a runs for 100 s more; b waits; c is on another cluster; d has ended."""
    plan = submitted(
        job("a", 0, 100), job("b", 0, 100), job("c", 0, 100, cluster="big"), job("d", 0, 9),
        job("e", 0, 9),
        states={"a": "RUNNING", "d": "COMPLETED"}, started_s={"a": NOW},
    )  # fmt: skip
    del plan.ids["e"]
    ends = site._own_ends(plan, "", NOW)
    assert ends == {1: pytest.approx(NOW + 100), 2: None, 4: None}
    assert site._own_ends(plan, "big", NOW) == {3: None}
    assert site._own_ends(None, "", NOW) == {}
    queue = [
        RawJob(state=state, job_id=number, end_s=end_s)
        for state, number, end_s in (
            ("RUNNING", 1, NOW + 9000), ("PENDING", 2, inf), ("PENDING", 7, inf),
            ("COMPLETING", 4, NOW + 5), ("RUNNING", None, NOW + 3),
        )
    ]  # fmt: skip
    left = site._without_own(ends, RawState(jobs=queue)).jobs
    assert [(one.job_id, one.end_s) for one in left] == [
        (1, pytest.approx(NOW + 100)), (7, inf), (4, NOW + 5), (None, NOW + 3),
    ]  # fmt: skip


def test_commands_go_to_their_cluster_but_those_about_all(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[list[str]] = []
    monkeypatch.setattr(site, "run_slurm", lambda argv, timeout_s: lines.append(list(argv)) or "")
    for name in ("", "big"):
        for program in ("squeue", "sacctmgr"):
            site._run_on(name, [program, "-h"], timeout_s=1.0)
    assert lines == [
        ["squeue", "-h"], ["sacctmgr", "-h"],
        ["squeue", "--clusters=big", "-h"], ["sacctmgr", "-h"],
    ]  # fmt: skip


TABLED = """
storages: {s: {path: /s}}
places: {a: {storage: s}, b: {storage: s, speed: 2}}
tasks: {x: {command: x, nodes: 2-16, application: solve}}
"""


def test_a_table_has_the_counts_and_the_doubts_that_it_has() -> None:
    refused = [Verdict.RELIABLE] * 4 + [Verdict.DOUBTFUL] * 4 + [Verdict.REFUSED] * 24
    known = table(verdicts=tuple(refused), curve_sd=0.05)
    made = problem(TABLED, 16, tables={"x": known})
    task, places = made.workflow.tasks["x"], made.workflow.places
    assert list(made.runs.counts(task, places["a"])) == list(range(1, 9))
    sure, doubtful = (made.runs.run(task, places["a"], n, ()) for n in (2, 8))
    assert sure is not None
    assert doubtful is not None
    assert (sure.time_s, sure.common, sure.group, sure.doubt) == (1900.0, 0.05, "solve", "")
    assert doubtful.doubt == "its prediction is doubtful"
    fast = made.runs.run(task, places["b"], 2, ())
    assert fast is not None
    assert fast.time_s == pytest.approx(950.0)
    assert made.runs.run(task, places["a"], 33, ()) is None
    none = problem(TABLED, 16)
    assert list(none.runs.counts(task, places["a"])) == []
    assert none.runs.run(task, places["a"], 2, ()) is None


def test_a_measured_speed_counts_where_the_workflow_gives_none() -> None:
    given = {"tables": {"x": table()}, "speeds": {"a": 4.0, "b": 4.0}}
    made = problem(TABLED, 16, **given)
    task, places = made.workflow.tasks["x"], made.workflow.places
    times = [made.runs.run(task, places[name], 4, ()) for name in "ab"]
    assert [one.time_s for one in times if one] == [pytest.approx(250), pytest.approx(500)]


def test_a_part_of_a_table_for_the_node_type_is_as_fast_as_it_says() -> None:
    known = table(node_type="old")
    given = {"tables": {"x": known}, "speeds": {"a": 4.0}, "types": {"a": "old", "b": "old"}}
    made = problem(TABLED, 16, **given)
    task, places = made.workflow.tasks["x"], made.workflow.places
    typed, told = (made.runs.run(task, places[name], 4, ()) for name in "ab")
    assert typed is not None
    assert told is not None
    # Its type is the table's: the measured speed is in it.  A speed that is given counts.
    assert (typed.time_s, told.time_s) == (1000.0, 500.0)
    other = problem(TABLED, 16, **{**given, "types": {"a": "else"}})
    unlike = other.runs.run(task, places["a"], 4, ())
    assert unlike is not None
    assert unlike.time_s == 250.0


def test_of_several_ways_the_slowest_counts() -> None:
    ways = [TransferPath(1.0, 100.0, 0.01), TransferPath(1.0, 50.0, 0.002)]
    assert _worst(ways) == {LATENCY: 0.01, BANDWIDTH: 50.0}
    assert _worst([]) == {}


def test_a_copy_takes_latency_and_bandwidth_or_what_was_measured() -> None:
    text = TEXT.replace(
        "storages: {s: {path: /s}}",
        "storages: {s: {path: /s, host: n1}, t: {path: /t}}\n"
        "links: [{from: s, to: t, bandwidth: 1M, latency: 3s}]",
    )
    asked: list[tuple[object, ...]] = []

    class Time:
        def __init__(self, time_s: float, verdict: Verdict = Verdict.RELIABLE) -> None:
            self.time_s, self.low_s, self.high_s = time_s, time_s / 2, time_s * 2
            self.verdict = verdict

    def copies(made: Time, given: str = text) -> Copies:
        return Copies(flow=flow(given), measured=lambda *ask: asked.append(ask) or made)  # type: ignore[arg-type, func-returns-value, return-value]

    told = copies(Time(0.0)).copy(5 * 2.0**20, "s", "t")
    assert told is not None
    assert (told.time_s, told.down, told.up) == (8.0, GUESSED, GUESSED)
    empty = copies(Time(0.0), text.replace(", latency: 3s", "")).copy(0.0, "s", "t")
    assert empty is not None
    assert empty.time_s == 1e-3
    assert asked == []
    probed = text.replace("bandwidth: 1M, ", "")
    measured = copies(Time(40.0), probed).copy(9.0, "s", "t")
    assert measured is not None
    assert (measured.time_s, measured.quantile(0.05)) == (40.0, pytest.approx(20.0))
    assert asked == [(9.0, "n1", "t")]
    nothing = copies(Time(0.0), probed).copy(0.0, "s", "t")
    assert nothing is not None
    assert (nothing.time_s, nothing.up) == (1e-3, 0.0)
    assert copies(Time(40.0, Verdict.REFUSED), probed).copy(9.0, "s", "t") is None


def test_the_record_lies_beside_the_workflow(tmp_path: Path) -> None:
    assert state_file.path_for(tmp_path / "w.yaml") == tmp_path / "w.plan.json"
    assert state_file.load(tmp_path / "none.plan.json") is None
    one = submitted(job("a", 0, 1))
    state_file.save(tmp_path / "w.plan.json", one)
    assert state_file.load(tmp_path / "w.plan.json") == one
    assert len(one.mark) == 6


def test_each_cluster_is_asked_once_about_its_own_places(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    class Poller:
        def __init__(self, _: object, *, cluster: str, **also: object) -> None:
            asked.append(cluster)
            self.cluster, self.raw, self.settings = cluster, RawState(), None

        def look(self) -> object:
            names = {"": "batch", "big": "gpu"}
            part = partition(profile([(NOW, 4 if self.cluster else 2)]), name=names[self.cluster])
            return cluster(part)

    monkeypatch.setattr(site, "ClusterPoller", Poller)
    monkeypatch.setattr(site, "with_outlooks", lambda look, *_: look)
    text = """
storages: {s: {path: /s}}
places:
  near: {storage: s, partition: batch}
  far: {storage: s, partition: gpu, cluster: big}
tasks: {x: {command: x, nodes: 2-3, run_time: 10}}
"""
    made = site._from_slurm(flow(text), Config(), NOW, None)
    assert asked == ["", "big"]
    assert {name: line.free for name, line in made.free.items()} == {"near": (2,), "far": (4,)}
    assert set(made.rooms) == {("x", "near"), ("x", "far")}
    assert made.nodes == {"near": frozenset(), "far": frozenset()}
