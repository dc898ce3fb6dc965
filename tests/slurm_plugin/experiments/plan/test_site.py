"""What a plan takes of the site: bounds, figures of nodes, its own jobs in the queue."""

from math import inf

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from predictor.neighbours import AskedJob, PastJob, PastJobs, words_of
from predictor.occupancy.application_model import OccupancyModel, Sample, occupancies
from predictor.refit import row_of
from predictor.tables.run_facts import change_of
from predictor.types import Verdict
from sacct_ingest.errors import ConfigError, NoHistory
from sacct_ingest.records import NodeProfile, Probe, Resource
from sacct_ingest.runs.layout import Unit
from sacct_ingest.store import RecordRow, Store
from sacct_ingest.store.fits import NEIGHBOURS
from slurm_plugin.config.setting_types import Source
from slurm_plugin.config.settings import Config, Snapshot
from slurm_plugin.experiments import held_jobs
from slurm_plugin.experiments.plan import site, state_file
from slurm_plugin.experiments.plan.chain import jobs
from slurm_plugin.experiments.plan.plans import plans
from slurm_plugin.experiments.plan.run_times import (
    BANDWIDTH,
    GUESSED,
    LATENCY,
    Copies,
    LearnedRunTimes,
    PlaceSpeed,
    TransferPath,
)
from slurm_plugin.experiments.plan.schedule import TaskBounds
from slurm_plugin.experiments.plan.site import room_for
from slurm_plugin.experiments.plan.workflow_file import parse
from slurm_plugin.slurm.cluster_state import Cluster, RawJob, RawState
from slurm_plugin.slurm.job_request import user_name
from slurm_plugin.slurm.limits import Association, LimitTables
from slurm_plugin.slurm.node_pool import NodeGroup, NodePool, profile
from tests.slurm_plugin.experiments.plan.made import NOW, problem
from tests.slurm_plugin.experiments.plan.test_followed_plan import given as submitted
from tests.slurm_plugin.experiments.plan.test_followed_plan import job
from tests.slurm_plugin.made import cluster, partition, table
from tests.slurm_plugin.made import job as request

TEXT = """
storages: {s: {path: /s}}
places: {a: {storage: s}, b: {storage: s, attributes: {mem_latency_s: 7}}, c: {storage: s}}
tasks: {x: {command: x, run_time: 10}}
"""


def flow(text=TEXT):
    return parse(text, name="w.yaml")


def node(name, cpu, node_type="t", on="pine"):
    return NodeProfile(
        cluster=on, node=name, node_type=node_type, at_s=NOW, cpu_all_events_per_s=cpu,
        mem_latency_s=1e-7,
    )  # fmt: skip


def pool(names):
    group = NodeGroup(cpus=4, mem_mib=0, steps=())
    return NodePool(now_s=NOW, groups={group: tuple(names)})


class Polled:
    """In place of Slurm: what it says of each cluster, and how each was asked."""

    def __init__(self):
        self.looks = {}
        self.asked = {}
        self.requests = []
        #: seconds since a job was on each node
        self.busy = {"1": 600.0, "2": 0.0, "4": 600.0}

    def busy_text(self):
        lines = (
            f"NodeName={name} Arch=x86_64 State=IDLE LastBusyTime={NOW - age:.0f} Weight=1\n"
            for name, age in self.busy.items()
        )
        return "".join(lines) + "NodeName=new State=IDLE LastBusyTime=Unknown\n"

    def poller(self, _, **how):
        self.asked[how["cluster"]] = how
        self.raw, self.settings, self.cluster = RawState(), None, how["cluster"]
        return self

    def look(self):
        return self.looks[self.cluster]

    def room(self, look, request):
        self.requests.append(request)
        return room_for(look, request)

    def gives(self, *parts, cluster=""):
        self.looks[cluster] = Cluster(
            name=cluster or "pine",
            taken_s=NOW,
            partitions={part.name: part for part in parts},
            default_partition="",
        )


@pytest.fixture
def slurm(monkeypatch):
    return with_polled(monkeypatch)


def with_polled(monkeypatch):
    """Put one in the place of Slurm."""
    made = Polled()
    monkeypatch.setattr(site, "ClusterPoller", made.poller)
    monkeypatch.setattr(site, "with_outlooks", lambda look, *_: look)
    monkeypatch.setattr(site, "room_for", made.room)
    monkeypatch.setattr(site, "run_slurm", lambda *_, **__: made.busy_text())
    monkeypatch.setattr("time.time", lambda: NOW)
    return made


def places(**nodes):
    """A partition of the place's name for each, on these nodes of one letter."""
    return [partition(name=name, pool=pool(own) if own else None) for name, own in nodes.items()]


def problem_of(flow, folder, profiles=(), **also):
    """The problem of a workflow, with a store that has these profiles."""
    url = f"sqlite:///{folder}/nimo.db"
    with Store.open(url) as store:
        store.profiles.add(profiles)
    config = msgspec.structs.replace(also.pop("config", Config()), store=url)
    return site.problem(flow, config, folder, **also)


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


NEVER_RAN = """
storages: {s: {path: /s}}
places: {a: {storage: s}}
tasks:
  short: {command: sort in, sbatch: [--time=60], nodes: 2-4}
  long: {command: align in, sbatch: [--time=60], nodes: 2-4}
"""


def never_ran(slurm, folder, text=NEVER_RAN, **jobs_of):
    """The problem of tasks that never ran, where these users had run jobs like them."""
    past = [
        PastJob(user, NOW - 9000, NOW - 900 + n, time_s, asked)
        for user, number in jobs_of.items()
        for words, time_s in (("sort in", 60.0), ("align in", 1800.0))
        for asked in [AskedJob(2, limit_s=3600.0, partition="a", words=words_of(words))]
        for n in range(number)
    ]
    with Store.open(f"sqlite:///{folder}/nimo.db") as store:
        payload = msgspec.json.encode(PastJobs(past)).decode()
        store.records.put(RecordRow(level=NEIGHBOURS[0], key=NEIGHBOURS[1], payload=payload))
    slurm.gives(partition(name="a"))
    return problem_of(flow(text), folder)


def test_a_task_that_never_ran_takes_what_jobs_like_it_took_and_says_so(slurm, tmp_path):
    made = never_ran(slurm, tmp_path, **{user_name(): 20})
    task, place = made.workflow.tasks, made.workflow.places["a"]
    assert list(made.runs.counts(task["short"], place)) == [2]
    short, long = (made.runs.run(task[name], place, 2, ()) for name in ("short", "long"))
    assert short.time_s < 200 < 1000 < long.time_s
    assert long.doubt == "it never ran: a guess from 40 of your other jobs"
    # Its time limit is its own, and no guess.
    planned = jobs(made.workflow, plans(made)[0].schedule, rooms=made.rooms)
    assert [[o for o in one.options if "--time" in o][-1] for one in planned] == ["--time=60"] * 2


@pytest.mark.parametrize(
    ("text", "users"),
    [
        (NEVER_RAN, {}),
        (NEVER_RAN, {"bob": 9, "zoe": 9, "kim": 9}),  # the site does not let users see these
        (NEVER_RAN.replace("sbatch: [--time=60], ", ""), {user_name(): 20}),
        (NEVER_RAN.replace("nodes: 2-4", "samples: history"), {user_name(): 20}),
    ],
)
def test_without_jobs_that_may_be_seen_or_a_limit_of_its_own_nothing_is_guessed(
    slurm, tmp_path, text, users
):
    wanted = r"tasks\.(short|long): there is no history of .*; or give its run_time .*, samples,"
    with pytest.raises(NoHistory, match=wanted):
        never_ran(slurm, tmp_path, text, **users)


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
    monkeypatch.setattr(site, "run_slurm", lambda argv, timeout_s: lines.append(list(argv)) or "")
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


TABLED = """
storages: {s: {path: /s}}
places: {a: {storage: s}, b: {storage: s, speed: 2}}
tasks: {x: {command: x, nodes: 2-16, application: solve}}
"""


def test_runs_on_other_counts_are_no_runs_of_this_problem():
    """Problems as large as their nodes: one on fewer than usual takes longer than theirs there."""
    usual = table(lambda n: 600.0, change=change_of((), Unit.NODES), observed=(2, 8))
    runs = problem(TABLED, 16, tables={"x": usual})
    task, place = runs.workflow.tasks["x"], runs.workflow.places["a"]
    assert runs.runs.run(task, place, 8, ()).time_s == pytest.approx(600.0, rel=0.05)
    assert runs.runs.run(task, place, 2, ()).time_s > 1200.0


def test_a_table_has_the_counts_and_the_doubts_that_it_has():
    refused = [Verdict.RELIABLE] * 4 + [Verdict.DOUBTFUL] * 4 + [Verdict.REFUSED] * 24
    recorded = table(verdicts=tuple(refused), curve_sd=0.05)
    made = problem(TABLED, 16, tables={"x": recorded})
    task, places = made.workflow.tasks["x"], made.workflow.places
    assert list(made.runs.counts(task, places["a"])) == list(range(1, 9))
    sure, doubtful = (made.runs.run(task, places["a"], n, ()) for n in (2, 8))
    assert (sure.time_s, sure.common, sure.group, sure.doubt) == (1900.0, 0.05, "solve", "")
    assert doubtful.doubt == "its prediction is doubtful"
    fast = made.runs.run(task, places["b"], 2, ())
    assert fast.time_s == pytest.approx(950.0)
    assert made.runs.run(task, places["a"], 33, ()) is None
    none = problem(TABLED, 16)
    assert list(none.runs.counts(task, places["a"])) == []
    assert none.runs.run(task, places["a"], 2, ()) is None


def test_a_measured_speed_counts_where_the_workflow_gives_none():
    given = {"tables": {"x": table()}, "speeds": {"a": PlaceSpeed(4.0), "b": PlaceSpeed(4.0)}}
    made = problem(TABLED, 16, **given)
    task, places = made.workflow.tasks["x"], made.workflow.places
    times = [made.runs.run(task, places[name], 4, ()) for name in "ab"]
    assert [one.time_s for one in times if one] == [pytest.approx(250), pytest.approx(500)]


def test_a_part_of_a_table_for_the_node_type_is_as_fast_as_it_says():
    recorded = table(node_type="old")
    given = {
        "tables": {"x": recorded},
        "speeds": {"a": PlaceSpeed(4.0)},
        "types": {"a": "old", "b": "old"},
    }
    made = problem(TABLED, 16, **given)
    task, places = made.workflow.tasks["x"], made.workflow.places
    typed, reported = (made.runs.run(task, places[name], 4, ()) for name in "ab")
    # Its type is the table's: the measured speed is in it.  A speed that is given counts.
    assert (typed.time_s, reported.time_s) == (1000.0, 500.0)
    other = problem(TABLED, 16, **{**given, "types": {"a": "else"}})
    unlike = other.runs.run(task, places["a"], 4, ())
    assert unlike.time_s == 250.0


@pytest.mark.parametrize(
    ("label", "level", "owner", "tag"),
    [
        ("{me}/lammps/melt", "tag", "{me}", "nimo:app=lammps,problem=melt"),
        ("melt", "tag", "{me}", "nimo:app=lammps,problem=melt"),
        ("anna/lammps/melt", "tag", "anna", "nimo:app=lammps,problem=melt"),
        ("{me}/melt", "line", "{me}", "nimo:app=melt"),
        ("anna/lammps/melt", "", "anna", "nimo:app=lammps,problem=melt"),
    ],
)
def test_a_job_of_a_plan_has_the_tag_of_its_history(slurm, tmp_path, label, level, owner, tag):
    """With the label of 'nimo predict' its runs joined another application's, ravi/ravi/lammps."""
    me = user_name()
    label, owner = label.format(me=me), owner.format(me=me)
    key = f"{owner}/lammps/melt" if level == "tag" else "ab12"
    own = table(level=level, key=key, label=f"{owner}/lammps/melt" if level == "tag" else label,
                owner=owner)  # fmt: skip
    with Store.open(f"sqlite:///{tmp_path}/nimo.db") as store:
        store.fits.replace([row_of(own)] if level else [])
    slurm.gives(*places(a="1234"))
    text = "storages: {s: {path: /s}}\nplaces: {a: {storage: s}}\n"
    known = "" if level else ", run_time: {1: 60}"
    task = f"{{command: x, application: {label}{known}}}"
    made = problem_of(flow(f"{text}tasks: {{x: {task}}}"), tmp_path)
    first = plans(made)[0]
    assert f"--comment={tag}" in jobs(made.workflow, first.schedule, rooms={})[0].options


def test_a_link_without_a_latency_has_the_measured_one(slurm, tmp_path):
    with Store.open(f"sqlite:///{tmp_path}/nimo.db") as store:
        store.probes.add(
            Probe(resource=Resource.LATENCY, source="n1", target="t", at_s=NOW - at, value=2e-3)
            for at in (30.0, 20.0, 10.0)
        )
    slurm.gives(*places(a="1", b="2", c="3"))
    text = TEXT.replace(
        "storages: {s: {path: /s}}",
        "storages: {s: {path: /s, host: n1}, t: {path: /t}}\nlinks: [{from: s, to: t}]",
    )
    links = problem_of(flow(text), tmp_path).workflow.links
    assert links["s", "t"].latency_s == 2e-3
    assert links["t", "s"].latency_s is None


def test_of_several_ways_the_slowest_counts():
    """A run takes its latency in milliseconds, and a second beside each 50 bytes a second."""
    near = {LATENCY: 1e-3, BANDWIDTH: 100.0}
    samples = [
        Sample({LATENCY: 1e-3 * a, BANDWIDTH: 100.0 / b}, occupancies(0.5, float(a * b), 1.0))
        for a in (1, 2, 5, 10)
        for b in (1, 2, 4)
    ]
    fit = OccupancyModel().fit(samples)
    runs = LearnedRunTimes(tables={}, fits={"x": fit}, near=near)
    task, place = flow().tasks["x"], flow().places["a"]

    def time_s(*ways):
        made = runs.run(task, place, 1, ways)
        return made.time_s

    ways = TransferPath(1.0, 100.0, 0.01), TransferPath(1.0, 50.0, 0.002)
    assert time_s(*ways) == time_s(TransferPath(1.0, 50.0, 0.01)) > 1.5 * max(map(time_s, ways))
    assert time_s() == time_s(TransferPath(1.0, 100.0, 1e-3))


def test_a_copy_takes_latency_and_bandwidth_or_what_was_measured():
    text = TEXT.replace(
        "storages: {s: {path: /s}}",
        "storages: {s: {path: /s, host: n1}, t: {path: /t}}\n"
        "links: [{from: s, to: t, bandwidth: 1M, latency: 3s}]",
    )
    asked = []

    class Time:
        def __init__(self, time_s, verdict=Verdict.RELIABLE):
            self.time_s, self.low_s, self.high_s = time_s, time_s / 2, time_s * 2
            self.verdict, self.transfers, self.problems = verdict, 0, ()

    def copies(made, given=text):
        return Copies(flow=flow(given), measured=lambda *ask: asked.append(ask) or made)

    reported = copies(Time(0.0)).copy(5 * 2.0**20, "s", "t")
    assert (reported.time_s, reported.down, reported.up) == (8.0, GUESSED, GUESSED)
    empty = copies(Time(0.0), text.replace(", latency: 3s", "")).copy(0.0, "s", "t")
    assert empty.time_s == 1e-3
    asked.clear()
    probed = text.replace("bandwidth: 1M, ", "")
    measured = copies(Time(40.0), probed).copy(9.0, "s", "t")
    assert (measured.time_s, measured.quantile(0.05)) == (40.0, pytest.approx(20.0))
    assert asked == [(9.0, "n1", "t")]
    nothing = copies(Time(0.0), probed).copy(0.0, "s", "t")
    assert (nothing.time_s, nothing.up) == (1e-3, 0.0)
    assert copies(Time(40.0, Verdict.REFUSED), probed).copy(9.0, "s", "t") is None


def test_the_record_lies_beside_the_workflow(tmp_path):
    assert state_file.path_for(tmp_path / "w.yaml") == tmp_path / "w.plan.json"
    assert state_file.load(tmp_path / "none.plan.json") is None
    one = submitted(job("a", 0, 1))
    held_jobs.write(tmp_path / "w.plan.json", one)
    assert state_file.load(tmp_path / "w.plan.json") == one
    assert len(one.mark) == 6
