"""A view of the cluster from what Slurm told, whoever told it."""

from dataclasses import replace
from math import exp, inf

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sacct_ingest.text.hostlist import expand
from slurm_plugin.slurm.cluster_state import RawJob, RawNode, RawPartition, RawReservation, RawState
from slurm_plugin.slurm.converters import tres
from slurm_plugin.slurm.footprint import footprint
from slurm_plugin.slurm.limits import Association, Cap, LimitKind, LimitTables, Qos, ResourceLimits
from slurm_plugin.slurm.node_pool import NodeShare, alternatives
from slurm_plugin.slurm.partition_view import partition_for, places_for
from slurm_plugin.slurm.slurm_conf import SlurmConf, read_settings
from slurm_plugin.slurm.snapshot import DAY_S, build
from tests.slurm_plugin.made import job

NOW = 1_795_256_400.0
HOUR = 3600.0


def node(name, state="IDLE", used=0, partitions="batch", **fields):
    given = {"cpus": 4, "mem_mib": 2000, "cpus_used": used, **fields}
    words = frozenset(state.split("+"))
    return RawNode(name=name, state=words, partitions=tuple(partitions.split(",")), **given)


def running(nodes, end_s, each="cpu=4", state="RUNNING", **fields):
    names = expand(nodes)
    total = {name: n * len(names) for name, n in tres(each).items()}
    return RawJob(
        state=state, partitions=("batch",), nodes=len(names), node_names=names, end_s=end_s,
        tres=total, **fields,
    )  # fmt: skip


def pending(nodes, reason="Resources", partitions="batch", **fields):
    names = tuple(partitions.split(","))
    return RawJob(state="PENDING", partitions=names, nodes=nodes, reason=reason, **fields)


BATCH = RawPartition(name="batch", default=True, max_time_s=86400.0, default_time_s=3600.0)
DEBUG = RawPartition(name="debug", max_nodes=2)


def view(nodes, jobs=(), partitions=(BATCH, DEBUG), settings=None, **fields):
    reported = {name: fields.pop(name) for name in ("reservations", "licences") if name in fields}
    given = {"cluster": "pine", "taken_s": NOW, **fields}
    observed = RawState(nodes=nodes, jobs=jobs, partitions=partitions, **reported)
    return build(observed, settings or SlurmConf(counts_memory=False), **given)


def starts(part, most, duration_s=1.0):
    return [part.profile.earliest_start(n, duration_s) - NOW for n in range(1, most + 1)]


NODES = [
    node("n1", "ALLOCATED", 4),
    node("n2", "MIXED", 1),
    node("n3", "ALLOCATED+COMPLETING", 4),
    node("n4", partitions="batch,debug", mem_mib=1500),
    node("n5", "DOWN+NOT_RESPONDING"),
    node("n6", "IDLE+DRAIN"),
    node("n7", "IDLE+PLANNED", partitions="debug"),
]
JOBS = [
    running("n1", NOW + HOUR),
    running("n2", NOW + 2 * HOUR, "cpu=1"),
    running("n3", NOW + 9 * HOUR, state="COMPLETING"),
]


def test_whole_nodes_are_free_when_their_last_job_ends():
    part = view(NODES, JOBS).partitions["batch"]
    assert part.nodes == 4
    assert starts(part, 5) == [0, 0, HOUR, 2 * HOUR, inf]


def test_a_job_that_shares_nodes_takes_the_rest_of_those_in_use():
    observed = view(NODES, JOBS)
    three = partition_for(observed, job(ntasks_per_node=3, min_cpus=3))
    four = partition_for(observed, job(ntasks_per_node=4, min_cpus=4))
    assert starts(three, 4) == [0, 0, 0, HOUR]
    assert starts(four, 4) == [0, 0, HOUR, 2 * HOUR]
    assert starts(partition_for(observed, job(shared=0)), 4) == [0, 0, HOUR, 2 * HOUR]
    assert partition_for(observed, job(ntasks_per_node=5, min_cpus=5)).nodes == 0


def test_cpus_come_back_job_by_job():
    nodes = [node("n1", "ALLOCATED", 4)]
    jobs = [running("n1", NOW + HOUR, "cpu=1"), running("n1", NOW + 2 * HOUR, "cpu=3")]
    observed = view(nodes, jobs)
    waits = [starts(partition_for(observed, job(ntasks_per_node=n)), 1)[0] for n in (1, 2, 4)]
    assert waits == [HOUR, 2 * HOUR, 2 * HOUR]


def test_memory_and_devices_are_shared_out_too():
    settings = SlurmConf(counts_memory=True, mem_cpu_mib=100)
    nodes = [
        node("n1", "MIXED", 1, mem_used_mib=1500, gres={"gpu": 4}, gres_used={"gpu": 3}),
        node("n2", gres={"gpu": 1}),
    ]
    jobs = [running("n1", NOW + HOUR, "cpu=1,mem=1500M,gres/gpu=3,gres/gpu:a100=3")]
    observed = view(nodes, jobs, settings=settings)
    asked = {
        "small": job(),
        "memory": job(min_mem_per_node=600),
        "by_cpu": job(ntasks_per_node=2, min_mem_per_cpu=300),
        "gpu": job(tres_per_node="gres/gpu:1"),
        "gpus": job(tres_per_node="gres/gpu:2"),
    }
    waits = {name: starts(partition_for(observed, one), 2) for name, one in asked.items()}
    assert waits == {
        "small": [0, 0],
        "memory": [0, HOUR],
        "by_cpu": [0, HOUR],
        "gpu": [0, 0],
        "gpus": [HOUR, inf],
    }


def test_a_job_without_memory_has_all_of_a_nodes_where_the_site_gives_no_default():
    observed = view([node("n1", "MIXED", 1)], [running("n1", NOW + HOUR, "cpu=1")])
    assert starts(partition_for(observed, job()), 1) == [0]
    observed = view(
        [node("n1", "MIXED", 1)],
        [running("n1", NOW + HOUR, "cpu=1")],
        settings=SlurmConf(counts_memory=True),
    )
    assert footprint(job(), observed.partitions["batch"]).whole
    assert starts(partition_for(observed, job()), 1) == [HOUR]


@pytest.mark.parametrize(
    ("settings", "fields"),
    [(SlurmConf(whole_nodes=True), {}), (SlurmConf(counts_memory=False), {"exclusive": True})],
)
def test_partitions_that_give_whole_nodes_only(settings, fields):
    only = RawPartition(name="batch", default=True, **fields)
    observed = view(NODES, JOBS, [only], settings)
    assert starts(partition_for(observed, job(ntasks_per_node=1)), 3) == [0, 0, HOUR]


def test_most_cpus_of_a_node_that_a_partition_gives():
    observed = view([node("n1")], (), [RawPartition(name="batch", default=True, max_cpus_node=2)])
    assert partition_for(observed, job(ntasks_per_node=2)).nodes == 1
    assert partition_for(observed, job(ntasks_per_node=3)).nodes == 0


def test_features_and_excluded_nodes():
    nodes = [
        node("n1", features=frozenset({"a", "ib"})),
        node("n2", features=frozenset({"b"})),
        node("n3"),
    ]
    observed = view(nodes)

    def count(**fields):
        return partition_for(observed, job(**fields)).nodes

    assert (count(features="a"), count(features="a&b"), count(features="a|b")) == (1, 0, 2)
    assert count(features="[a*2&b*1]") == 3
    assert count(exc_nodes="n[2-3]") == 1


@pytest.mark.parametrize("text", ["", "[a|b]", "a*2", "(a&b)|c", "!a"])
def test_constraints_that_are_not_followed_let_all_nodes_pass(text):
    assert alternatives(text) is None


def test_maintenance_ahead_keeps_nodes_from_long_jobs():
    remaining = RawReservation(
        name="m", start_s=NOW + HOUR, end_s=NOW + 3 * HOUR, node_names=("n1", "n2")
    )
    more = RawReservation(
        name="o", start_s=NOW + 2 * HOUR, end_s=NOW + 4 * HOUR, node_names=("n1",)
    )
    part = view([node("n1"), node("n2"), node("n3")], reservations=[remaining, more]).partitions[
        "batch"
    ]
    assert starts(part, 3, HOUR) == [0, 0, 0]
    assert starts(part, 3, HOUR + 1) == [0, 3 * HOUR, 4 * HOUR]


def test_nodes_that_are_off_are_free_when_they_are_up():
    nodes = [node("n1"), node("n2", "IDLE+CLOUD+POWERED_DOWN"), node("n3", "IDLE+POWERING_DOWN")]
    part = view(nodes, settings=SlurmConf(resume_s=300.0, counts_memory=False)).partitions["batch"]
    assert starts(part, 3) == [0, 300.0, 300.0]


def test_licences_that_others_have_are_waited_for():
    jobs = [running("n1", NOW + HOUR, licences={"matlab": 3})]
    observed = view([node("n1", used=4), node("n2")], jobs, licences={"matlab": 4})
    waits = [
        starts(partition_for(observed, job(licenses=text)), 1)[0]
        for text in ("", "matlab", "matlab:2", "matlab:5", "of-a-server:1")
    ]
    assert waits == [0, 0, HOUR, inf, 0]


def capped(user):
    limits = ResourceLimits(
        caps=(Cap(LimitKind.JOB, "cpu", 6, owner=user), Cap(LimitKind.GROUP_MINUTES, "mem", 1e5))
    )
    return Association(limits=limits if user == "alice" else ResourceLimits(), parent="root")


LIMITS = LimitTables(
    qos={
        "short": Qos(limits=ResourceLimits(caps=(Cap(LimitKind.JOB, "node", 2),), max_time_s=HOUR))
    },
    associations={("physics", user, ""): capped(user) for user in ("alice", "bob")},
    default_accounts={"alice": "physics"},
    safe=True,
)
kinds = st.builds(
    job,
    user_name=st.sampled_from(["alice", "bob"]),
    account=st.sampled_from(["", "physics"]),
    qos=st.sampled_from(["", "short"]),
    partition=st.sampled_from(["", "debug", "batch,debug"]),
    min_nodes=st.sampled_from([None, 2]),
    max_nodes=st.sampled_from([None, 2, 8]),
    time_limit=st.sampled_from([None, 60]),
    num_tasks=st.sampled_from([None, 8]),
    ntasks_per_node=st.sampled_from([None, 2]),
    cpus_per_task=st.sampled_from([None, 2]),
    min_mem_per_node=st.sampled_from([None, 1800]),
    min_mem_per_cpu=st.sampled_from([None, 600]),
    tres_per_node=st.sampled_from(["", "gres/gpu:1"]),
    shared=st.sampled_from([None, 0]),
    features=st.sampled_from(["", "ib"]),
    exc_nodes=st.sampled_from(["", "n1"]),
    licenses=st.sampled_from(["", "matlab"]),
)


@given(kinds, kinds)
def test_terms_that_are_cached_are_those_of_the_same_kind_of_job(base, other):
    fields = msgspec.structs.asdict(other).items()
    jobs = [base, *(msgspec.structs.replace(base, **{name: value}) for name, value in fields)]
    nodes = [*NODES, node("n8", features=frozenset({"ib"}), gres={"gpu": 1})]
    observed = view(nodes, JOBS, settings=SlurmConf(counts_memory=True), limits=LIMITS)
    remaining = {}
    for one in jobs:
        assert places_for(observed, one, remaining) == places_for(observed, one)


def test_pending_jobs_take_the_nodes_that_backfill_planned_for_them():
    jobs = [pending(2, start_s=NOW + HOUR, end_s=NOW + 2 * HOUR, tres={"cpu": 8.0})]
    part = view([node("n1"), node("n2"), node("n3")], jobs).partitions["batch"]
    assert [part.profile.free_at(NOW + t) for t in (0, HOUR, 2 * HOUR)] == [3, 1, 3]


def test_a_planned_job_that_shares_nodes_takes_its_part():
    jobs = [pending(2, start_s=NOW + HOUR, end_s=inf, tres={"cpu": 2.0})]
    part = view([node("n1"), node("n2"), node("n3")], jobs).partitions["batch"]
    # One whole node is left, and three CPUs of each of the others.
    free = [part.fitting(NodeShare(cpus=n, whole=False)).profile for n in (3, 4)]
    assert [one.free_at(NOW + HOUR) for one in (part.profile, *free)] == [1, 3, 1]


def test_planned_nodes_count_in_the_partition_that_has_them():
    nodes = [node("n1"), node("n2", partitions="batch,debug"), node("n3", partitions="debug")]
    plan = pending(
        2, partitions="debug", start_s=NOW, end_s=inf, planned_names=("n2", "n3"), tres={"cpu": 8.0}
    )
    observed = view(nodes, [plan])
    assert observed.partitions["batch"].profile.free_at(NOW) == 1
    assert observed.partitions["debug"].profile.free_at(NOW) == 0


def test_only_jobs_that_want_nodes_wait_in_the_queue():
    jobs = [
        pending(1, jobs=10),
        pending(1, "Priority", "debug,batch"),
        pending(1, "Dependency"),
        pending(1, "JobHeldUser"),
        pending(1, "QOSMaxJobsPerUserLimit"),
        pending(1, "AssocGrpCpuLimit"),
    ]
    observed = view(NODES, jobs)
    assert [observed.partitions[name].queue for name in ("batch", "debug")] == [11, 11]


def test_nodes_used_by_jobs_that_are_hidden_are_not_counted_on():
    assert starts(view(NODES).partitions["batch"], 2) == [0, inf]


def test_the_mean_queue_follows_slowly():
    first = view(NODES)
    second = view(NODES, [pending(1, jobs=11)], taken_s=NOW + DAY_S, previous=first)
    assert first.partitions["batch"].queue_mean == 0.0
    assert second.partitions["batch"].queue_mean == pytest.approx(11 * (1 - exp(-1)))


def test_the_default_partition_is_that_of_jobs_that_name_none():
    observed = view(NODES)
    assert partition_for(observed, job()).name == "batch"
    assert partition_for(observed, job(partition="debug")).name == "debug"
    assert partition_for(observed, job(partition="nowhere")) is None


def test_of_several_partitions_the_job_starts_where_it_can_first():
    fast = RawPartition(name="fast", max_nodes=2, max_time_s=600.0)
    nodes = [node("n1", used=4), node("n2", used=4), node("n3", partitions="fast")]
    observed = view(nodes, [running("n[1-2]", NOW + HOUR)], [BATCH, fast])
    both = partition_for(observed, job(partition="batch,fast", min_nodes=1, max_nodes=1))
    assert (both.name, both.max_time_s, both.largest) == ("batch,fast", 600.0, 1)
    assert starts(both, 2) == [0, HOUR]


def test_of_partitions_that_allow_other_counts_nobody_knows_which_it_will_be():
    """Slurm would give two nodes of the one, or one of the other."""
    small = RawPartition(name="small", max_nodes=1)
    observed = view([node("n1", partitions="batch,small"), node("n2")], (), [BATCH, small])
    assert partition_for(observed, job(partition="batch,small", min_nodes=1, max_nodes=8)) is None
    assert (
        partition_for(observed, job(partition="batch,small", min_nodes=1, max_nodes=1)) is not None
    )


def test_partitions_that_do_not_take_the_job_do_not_count():
    closed = RawPartition(name="closed", accounts=frozenset({"physics"}))
    nodes = [node("n1", partitions="closed"), node("n2")]
    observed = view(nodes, (), [BATCH, closed])
    assert partition_for(observed, job(partition="batch,closed", account="art")).name == "batch"
    both = partition_for(observed, job(partition="batch,closed", account="physics"))
    assert both.name == "batch,closed"


def test_answers_are_retained_and_promises_taken_off_them():
    observed = view([node("n1"), node("n2")])
    part, share = observed.partitions["batch"], NodeShare(cpus=1, whole=False)
    assert part.fitting(share).profile.free_at(NOW) == 2
    promised = part.promise(1, NOW, NOW + HOUR)
    assert [promised.fitting(share).profile.free_at(NOW + t) for t in (0, HOUR)] == [1, 2]
    assert promised.promise(1, NOW, inf).fitting(share).profile.free_at(NOW) == 0
    assert part.fitting(share).profile.free_at(NOW) == 2
    later = view([node("n1")], previous=observed).partitions["batch"]
    assert share in later.pool.memo


@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 9)), max_size=4),
    st.integers(1, 4),
    st.booleans(),
)
def test_a_smaller_share_never_waits_longer(jobs, cpus, whole):
    used = min(sum(n for n, _ in jobs), 4)
    on_node = [running("n1", NOW + end, f"cpu={n}") for n, end in jobs]
    pool = view([node("n1", used=used), node("n2")], on_node).partitions["batch"].pool
    free, total = pool.fitting(NodeShare(cpus=cpus, whole=whole))
    less, more = pool.fitting(NodeShare(cpus=max(cpus - 1, 1), whole=False))
    assert more >= total
    for nodes in (1, 2):
        assert less.earliest_start(nodes, 1.0) <= free.earliest_start(nodes, 1.0)


def limited(*, site=None, **own):
    """Node counts for jobs with 1500 MiB on each node, and with 600 MiB for each CPU."""
    batch = RawPartition(name="batch", default=True, **own)
    observed = view(NODES, partitions=(batch,), settings=SlurmConf(**site or {}))
    of_node, of_cpu = job(min_mem_per_node=1500), job(min_mem_per_cpu=600, cpus_per_task=2)
    return [partition_for(observed, one).nodes > 0 for one in (of_node, of_cpu)]


def test_a_job_with_more_memory_than_allowed_on_a_node_starts_on_none():
    assert limited() == [True, True]
    assert limited(max_mem_node_mib=1000) == [False, False]
    assert limited(max_mem_node_mib=1200) == [False, True]
    assert limited(site={"max_mem_node_mib": 1000}) == [False, False]
    assert limited(site={"max_mem_node_mib": 1000}, max_mem_node_mib=2000) == [True, True]


def test_a_partitions_limit_of_memory_replaces_the_clusters_whether_for_cpus_or_nodes():
    assert limited(site={"max_mem_node_mib": 1000}, max_mem_cpu_mib=1000) == [True, True]
    # With 100 MiB for a CPU either job would need more CPUs than a node has.
    assert limited(site={"max_mem_cpu_mib": 100}) == [False, False]
    assert limited(site={"max_mem_cpu_mib": 100}, max_mem_node_mib=1500) == [True, True]


def test_limits_of_memory_are_read():
    assert read_settings("MaxMemPerNode           = 64000\n").max_mem_node_mib == 64000
    assert read_settings("MaxMemPerNode           = UNLIMITED\n").max_mem_node_mib is None


def test_settings_are_read():
    result = read_settings(
        "ClusterName             = pine\nSlurmUser               = slurm(64030)\n"
        "AccountingStorageEnforce = associations,limits\nResumeTimeout           = 120 sec\n"
        "SelectType              = select/linear\nSelectTypeParameters    = CR_MEMORY\n"
        "SLURM_VERSION           = 24.11.5\nDefMemPerCPU            = UNLIMITED\n"
        "DefMemPerNode           = 500\nPrivateData             = none\n"
    )
    assert result == SlurmConf(
        cluster="pine",
        release=(24, 11),
        slurm_user=64030,
        enforced=("associations", "limits"),
        resume_s=120.0,
        whole_nodes=True,
        counts_memory=True,
        mem_node_mib=500,
    )
    assert read_settings("PrivateData = accounts,jobs\n").private


@pytest.mark.parametrize(
    ("release", "keeps"),
    [
        *(("22.05.8", False), ("24.11.5", False), ("25.05.2", False), ("25.05", False)),
        *(("25.05.3", True), ("25.05.10", True), ("25.11.0-0rc1", True), ("26.05.5", True)),
        *(("", False), ("unknown", False)),
    ],
)
def test_the_release_tells_whether_backfill_keeps_limits(release, keeps):
    settings = read_settings(f"SLURM_VERSION = {release}\n")
    assert settings.keeps_limit is keeps
    observed = build(RawState(), settings, cluster="pine", taken_s=NOW)
    assert observed.keeps_limit is keeps
    # Where ``--time-min`` is what Slurm plans with it is none that goes with a limit.
    planning = replace(settings, plans_softly=True)
    assert not build(RawState(), planning, cluster="pine", taken_s=NOW).keeps_limit


def test_a_partition_shows_when_its_next_reservation_begins():
    def reservation(begin_s, *nodes):
        fields = {"name": "r", "start_s": NOW + begin_s, "end_s": NOW + 9e6}
        return RawReservation(**fields, node_names=nodes)

    nodes = [node("n1"), node("n2"), node("n3", partitions="other")]
    reservations = [
        *(reservation(-5, "n1"), reservation(700, "n2"), reservation(600, "n1", "n9")),
        *(reservation(50, "n3"), reservation(40)),
    ]
    observed = view(nodes, reservations=reservations)
    assert observed.partitions["batch"].reserved_s == NOW + 600
    assert view(nodes).partitions["batch"].reserved_s == inf


@pytest.mark.parametrize(
    ("release", "whole"),
    [("22.05.8", True), ("24.05.4", True), ("24.11.0", False), ("26.05.5", False), ("", False)],
)
def test_the_release_tells_whose_cpus_come_with_memory(release, whole):
    assert read_settings(f"SLURM_VERSION = {release}\n").whole_tasks is whole
