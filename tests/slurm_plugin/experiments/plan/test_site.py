"""What a plan takes of the site: bounds, figures of nodes, its own jobs in the queue."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sacct_ingest.errors import ConfigError
from sacct_ingest.records import Probe, Resource
from sacct_ingest.store import Store
from slurm_plugin.config.setting_types import Source
from slurm_plugin.config.settings import Config, Snapshot
from slurm_plugin.experiments import held_jobs
from slurm_plugin.experiments.plan import slurm_places, state_file
from slurm_plugin.experiments.plan.run_times import LearnedRunTimes
from slurm_plugin.experiments.plan.schedule import TaskBounds
from slurm_plugin.experiments.plan.slurm_places import room_for
from slurm_plugin.slurm.cluster_state import RawJob, RawState
from slurm_plugin.slurm.limits import Association, LimitTables
from slurm_plugin.slurm.node_pool import NodeGroup, NodePool, profile
from tests.slurm_plugin.experiments.plan.made import NOW
from tests.slurm_plugin.experiments.plan.polled_site import (
    TEXT,
    flow,
    node,
    places,
    problem_of,
    with_polled,
)
from tests.slurm_plugin.experiments.plan.test_followed_plan import given as submitted
from tests.slurm_plugin.experiments.plan.test_followed_plan import job
from tests.slurm_plugin.made import cluster, partition
from tests.slurm_plugin.made import job as request


def test_bounds_are_those_of_partition_and_request():
    part = partition(max_nodes=6, min_nodes=2, max_time_s=3600.0)
    made = room_for(cluster(part), request(partition="batch", min_nodes=1, max_nodes=None))
    assert made == TaskBounds(2, 6, 3600.0, "MaxNodes of partition batch")
    free = room_for(cluster(partition()), request(partition="batch", max_nodes=None))
    assert free == TaskBounds(1, 32, inf, "")


@pytest.mark.parametrize(
    ("part", "why"),
    [
        (partition(up=False), "partition batch is not up"),
        (partition(accounts=frozenset({"physics"})),
         "partition batch does not admit chem"),
        (partition(allowed_qos=frozenset({"long"})),
         "partition batch does not admit chem"),
        (partition(name="other"), "partition batch is not up"),
    ],
)  # fmt: skip
def test_a_partition_that_takes_no_such_task_gives_no_node(part, why):
    asked = request(partition="batch", account="chem")
    assert room_for(cluster(part), asked) == TaskBounds(high=0, why=why)
    nobody = room_for(cluster(part), request(partition="batch"))
    if "chem" in why and part.allowed_qos:
        assert nobody.why == "partition batch does not admit normal"


def test_the_qos_of_an_association_may_come_in():
    part = partition(allowed_qos=frozenset({"long"}))
    tables = LimitTables(associations={("chem", "alice", ""): Association(default_qos="long")})
    look = cluster(part)
    look = type(look)(
        name="pine", taken_s=NOW, partitions={"batch": part}, default_partition="batch",
        limits=tables,
    )  # fmt: skip
    assert room_for(look, request(partition="batch", account="chem")).high == 32


def test_places_have_the_medians_of_their_nodes_and_what_the_workflow_says(slurm, tmp_path):
    profiles = [node("1", 10.0), node("2", 20.0), node("3", None), node("4", 90.0),
                node("1", 999.0, on="oak")]  # fmt: skip
    slurm.gives(*places(a="123", b="4", c=""))
    made = problem_of(flow(), tmp_path, profiles)
    own = made.workflow.places
    assert own["a"].attributes == {"cpu_all_events_per_s": 15.0, "mem_latency_s": 1e-7}
    assert own["b"].attributes == {"cpu_all_events_per_s": 90.0, "mem_latency_s": 7}
    assert own["c"].attributes == {}
    # Speeds are against the first place in the file.
    assert speeds(made) == {"a": 1.0, "b": 6.0}
    slurm.gives(*places(a="", b="4", c=""))
    assert speeds(problem_of(flow(), tmp_path)) == {}


def test_places_are_as_fast_as_probes_see_them_now(slurm, tmp_path):
    """Series of CPU and disk had no influence on a plan."""
    seen = [
        (Resource.CPU, "1.site.org", "", 0.5, 60.0),
        (Resource.CPU, "2", "", 0.1, 60.0),  # a job's work
        (Resource.CPU, "4", "", 0.25, 7200.0),  # too old
        (Resource.DISK_READ, "io1", "/s", 3e8, 60.0),
        (Resource.DISK_READ, "io2", "/s", 9e8, 60.0),  # another host's
        (Resource.DISK_LATENCY, "1", "/s/da", 1e-3, 60.0),  # not where the data lies
    ]
    with Store.open(f"sqlite:///{tmp_path}/nimo.db") as store:
        store.probes.add(
            Probe(resource=what, source=source, target=target, at_s=NOW - age, value=value)
            for what, source, target, value, age in seen
        )
    unused = NodeGroup(cpus=4, mem_mib=0, steps=(), empty_s=NOW)
    used = NodeGroup(cpus=2, mem_mib=0, steps=())
    own = NodePool(now_s=NOW, groups={unused: ("1",), used: ("2",)})
    slurm.gives(partition(name="a", pool=own), *places(b="4", c=""))
    text = TEXT.replace("{path: /s}", "{path: /s/data, host: io1}")
    made = problem_of(flow(text), tmp_path, [node("1", 10.0), node("4", 10.0)])
    own = {name: place.attributes for name, place in made.workflow.places.items()}
    assert own["a"] == {
        "cpu_all_events_per_s": 5.0, "mem_latency_s": 1e-7, "disk_read_bytes_per_s": 3e8
    }  # fmt: skip
    assert own["b"]["cpu_all_events_per_s"] == 10.0
    # Run times are those of an idle place a: b, which is as fast, is no faster for what a does now.
    assert speeds(made) == {"a": 0.5, "b": 1.0}
    assert made.runs.room == {name: {"cpus": 4, "memory": inf} for name in "ab"}


def seen_now(slurm, folder, shares, age_s=60.0):
    """The problem of two places of a node each; probes see these shares of their CPUs."""
    hosts = dict(zip("ab", "14", strict=True))
    with Store.open(f"sqlite:///{folder}/nimo.db") as store:
        store.probes.add(
            Probe(resource=Resource.CPU, source=hosts[place], at_s=NOW - age_s, value=share)
            for place, share in shares.items()
        )
    unused = NodeGroup(cpus=4, mem_mib=0, steps=(), empty_s=NOW)
    pools = {place: NodePool(now_s=NOW, groups={unused: (host,)}) for place, host in hosts.items()}
    slurm.gives(*(partition(name=place, pool=own) for place, own in pools.items()), *places(c=""))
    return problem_of(flow(), folder, [node("1", 10.0), node("4", 20.0)])


def times_on(made, place):
    task, where = made.workflow.tasks["x"], made.workflow.places[place]
    return made.runs.run(task, where, 1, ()).time_s


@given(
    shares=st.dictionaries(st.sampled_from("ab"), st.floats(0.01, 1.0)),
    age_s=st.floats(1.0, 3600.0),
    busy=st.tuples(st.floats(0.0, 7200.0), st.floats(0.0, 7200.0)),
)
def test_nothing_measured_now_makes_a_place_faster_than_when_idle(
    tmp_path_factory, shares, age_s, busy
):
    folder = tmp_path_factory.mktemp("probes")
    with pytest.MonkeyPatch.context() as patch:
        slurm = with_polled(patch)
        slurm.busy = dict(zip("14", busy, strict=True))
        made = seen_now(slurm, folder, shares, age_s)
    for place, idle_s, host in (("a", 10.0, "1"), ("b", 5.0, "4")):
        counts = NOW - age_s > round(NOW - slurm.busy[host])
        share = shares.get(place, 1.0) if counts else 1.0
        assert times_on(made, place) == pytest.approx(idle_s / share)
        assert times_on(made, place) >= idle_s * (1 - 1e-9)


def test_a_probe_beside_ones_own_job_says_nothing(slurm, tmp_path):
    """Its share of 0.2 made the other place five times as fast: 3 min became 37 s."""
    slurm.busy["1"] = 30.0
    made = seen_now(slurm, tmp_path, {"a": 0.2, "b": 1.0}, age_s=60.0)
    assert speeds(made) == {"a": 1.0, "b": 2.0}
    assert (times_on(made, "a"), times_on(made, "b")) == (10.0, 5.0)


def test_without_the_time_of_its_last_job_no_probe_of_a_node_counts(slurm, tmp_path):
    slurm.busy = {}
    assert speeds(seen_now(slurm, tmp_path, {"a": 0.5, "b": 0.5})) == {"a": 1.0, "b": 2.0}


def speeds(made):
    assert isinstance(made.runs, LearnedRunTimes)
    return {name: speed.now for name, speed in made.runs.speeds.items()}


def test_a_place_has_a_node_type_where_all_its_nodes_are_of_one(slurm, tmp_path):
    profiles = [node("1", 1.0, "old"), node("2", 1.0, "old"), node("3", 1.0, "new")]
    slurm.gives(*places(a="12", b="23", c=""))
    runs = problem_of(flow(), tmp_path, profiles).runs
    assert isinstance(runs, LearnedRunTimes)
    assert runs.types == {"a": "old"}


def test_idle_clusters_have_the_nodes_that_the_workflow_says(slurm, tmp_path):
    text = TEXT.replace("{storage: s}", "{storage: s, nodes: 2-5}")
    text = text.replace("{storage: s, attributes", "{storage: s, nodes: 3, attributes")
    made = problem_of(flow(text), tmp_path, empty=True)
    assert made.free["a"] == profile([(NOW, 5)])
    assert made.free["b"] == profile([(NOW, 3)])
    with pytest.raises(ConfigError, match=r"places\.a: --empty does not ask Slurm"):
        problem_of(flow(), tmp_path, empty=True)
    assert slurm.asked == {}


@pytest.mark.parametrize(
    ("source", "far"),
    [(Source.AUTO, Source.TEXT), (Source.PYSLURM, Source.TEXT), (Source.JSON, Source.JSON)],
)
def test_pyslurm_reads_the_local_cluster_alone(slurm, tmp_path, source, far):
    slurm.gives(*places(a="1", b="2"))
    slurm.gives(*places(c="3"), cluster="big")
    text = TEXT.replace("c: {storage: s}", "c: {storage: s, cluster: big}")
    problem_of(flow(text), tmp_path, config=Config(snapshot=Snapshot(source=source)))
    assert slurm.asked[""]["how"].source is source
    assert slurm.asked["big"]["how"].source is far


def test_a_profile_begins_now(slurm, tmp_path):
    text = TEXT.replace("places: {a: {storage: s}", "places: {a: {storage: s, partition: batch}")
    free = profile([(NOW - 9, 4), (NOW + 60, 2)])
    slurm.gives(partition(free), *places(b="", c=""))
    made = problem_of(flow(text), tmp_path).free["a"]
    assert (made.times_s, made.free) == ((NOW, NOW + 60), (4, 6))
    slurm.gives(partition(free), *places(b=""))
    with pytest.raises(ConfigError, match=r"places\.c: no partition 'c'; there are batch, b"):
        problem_of(flow(text), tmp_path)


def test_a_task_asks_for_its_fewest_nodes_with_its_own_options(slurm, tmp_path):
    slurm.gives(*places(a="1", b="2", c="3"))
    task = "x: {command: x, run_time: 10, nodes: 3-5, sbatch: [--account=chem]}"
    text = TEXT.replace("x: {command: x, run_time: 10}", task)
    problem_of(flow(text), tmp_path)
    asked = [(one.min_nodes, one.partition, one.account) for one in slurm.requests]
    assert asked == [(3, name, "chem") for name in "abc"]
    with pytest.raises(ConfigError, match=r"tasks\.x\.sbatch: "):
        problem_of(flow(text.replace("--account=chem", "--mem=lots")), tmp_path)


def test_own_jobs_leave_the_queue_and_end_when_they_are_expected_to(slurm, tmp_path):
    """a runs for 100 s more; b waits; c is on another cluster; d has ended; e has no id."""
    plan = submitted(
        job("a", 0, 100), job("b", 0, 100), job("c", 0, 100, cluster="big"), job("d", 0, 9),
        job("e", 0, 9),
        states={"a": "RUNNING", "d": "COMPLETED"}, started_s={"a": NOW},
    )  # fmt: skip
    del plan.steps["e"]
    slurm.gives(*places(a="1", b="2"))
    slurm.gives(*places(c="3"), cluster="big")
    text = TEXT.replace("c: {storage: s}", "c: {storage: s, cluster: big}")
    problem_of(flow(text), tmp_path, submitted=plan)
    queue = [
        RawJob(state=state, job_id=number, end_s=end_s)
        for state, number, end_s in (
            ("RUNNING", 1, NOW + 9000), ("PENDING", 2, inf), ("PENDING", 3, inf),
            ("PENDING", 5, inf), ("PENDING", 7, inf), ("COMPLETING", 4, NOW + 5),
            ("RUNNING", None, NOW + 3),
        )
    ]  # fmt: skip

    def left(cluster):
        state = slurm.asked[cluster]["adapt"](RawState(jobs=queue))
        return [(one.job_id, one.end_s) for one in state.jobs]

    others = [(5, inf), (7, inf), (4, NOW + 5), (None, NOW + 3)]
    assert left("") == [(1, pytest.approx(NOW + 100)), (3, inf), *others]
    assert left("big") == [(1, NOW + 9000), (2, inf), *others]
    problem_of(flow(text), tmp_path)
    assert left("") == [(one.job_id, one.end_s) for one in queue]


def test_commands_go_to_their_cluster_but_those_about_all(slurm, tmp_path, monkeypatch):
    lines = []
    monkeypatch.setattr(
        slurm_places, "run_slurm", lambda argv, timeout_s: lines.append(list(argv)) or ""
    )
    slurm.gives(*places(a="1", b="2"))
    slurm.gives(*places(c="3"), cluster="big")
    text = TEXT.replace("c: {storage: s}", "c: {storage: s, cluster: big}")
    problem_of(flow(text), tmp_path)
    for name in ("", "big"):
        for program in ("squeue", "sacctmgr"):
            slurm.asked[name]["run"]([program, "-h"], timeout_s=1.0)
    assert lines == [
        ["scontrol", "show", "nodes", "-o"], ["scontrol", "--clusters=big", "show", "nodes", "-o"],
        ["squeue", "-h"], ["sacctmgr", "-h"],
        ["squeue", "--clusters=big", "-h"], ["sacctmgr", "-h"],
    ]  # fmt: skip


def test_the_record_lies_beside_the_workflow(tmp_path):
    assert state_file.path_for(tmp_path / "w.yaml") == tmp_path / "w.plan.json"
    assert state_file.load(tmp_path / "none.plan.json") is None
    one = submitted(job("a", 0, 1))
    held_jobs.write(tmp_path / "w.plan.json", one)
    assert state_file.load(tmp_path / "w.plan.json") == one
    assert len(one.mark) == 6
