"""Series of probes, node profiles and steps, on all three databases."""

from msgspec.structs import replace

from sacct_ingest.records import NodeProfile, Probe, Resource
from sacct_ingest.store.retention import RetentionTimes
from tests.sacct_ingest.records import run, step


def probe(**given):
    fields = {
        "resource": Resource.BANDWIDTH,
        "source": "n1",
        "target": "n2",
        "at_s": 1_790_000_000.25,
        "value": 1.25e8,
        "size_bytes": 65536,
        "took_s": 0.5,
    }
    return Probe(**fields | given)


def profile(**given):
    fields = {
        "cluster": "pine",
        "node": "n1",
        "node_type": "epyc",
        "at_s": 1_790_000_000.5,
        "job_id": 7,
        "cpus": 64,
        "cpu_events_per_s": 1000.0,
        "mem_latency_s": 9e-8,
    }
    return NodeProfile(**fields | given)


def test_a_series_comes_back_in_the_order_of_time_with_its_failures(store):
    first, failed = probe(), probe(at_s=1_790_000_060.125, value=None, error="n2: no route")
    others = [
        probe(target="n3"),
        probe(source="N1"),
        probe(resource=Resource.LATENCY, value=1e-4),
        probe(resource=Resource.CPU, target="", value=0.5, size_bytes=None),
    ]
    assert store.probes.add([failed, first, *others]) == 6
    assert store.probes.series(Resource.BANDWIDTH, "n1", "n2") == [first, failed]
    assert store.probes.series(Resource.CPU, "n1") == [others[-1]]
    assert store.probes.series(Resource.BANDWIDTH, "n1", "n2", since_s=failed.at_s) == [failed]
    assert store.probes.series(Resource.BANDWIDTH, "n1", "n2", until_s=failed.at_s) == [first]


def test_measurements_are_retained_once(store):
    rows = [probe(at_s=1_790_000_000 + i / 8) for i in range(450)]
    assert store.probes.add(rows[:300]) == 300
    assert store.probes.add(rows) == 150
    assert store.probes.add([rows[0], rows[0]]) == 0
    assert store.probes.series(Resource.BANDWIDTH, "n1", "n2") == rows


def test_the_newest_of_each_series_and_source(store):
    newest = [probe(at_s=1_790_000_009.0), probe(source="n2", target="n1")]
    store.probes.add([probe(), *newest])
    assert store.probes.latest() == newest
    assert [p.at_s for p in store.probes.since(1_790_000_001)] == [1_790_000_009.0]


def test_profiles_of_nodes(store):
    old, other = profile(), profile(node="n2", cluster="oak")
    new = profile(at_s=1_790_000_900.0, error="fio: not found", disk_latency_s=None)
    store.profiles.add([old, new, other])
    store.profiles.add([old])
    assert store.profiles.latest() == [other, new]
    assert store.profiles.latest("pine") == [new]


def test_the_newest_profile_of_a_node_is_never_pruned(store):
    old, new = profile(at_s=1.0), profile(at_s=2.0)
    store.profiles.add([old, new, profile(node="n2", at_s=1.5)])
    (done,) = store.prune(RetentionTimes(profiles=10))
    assert (done.table, done.rows) == ("profiles", 1)
    assert [(p.node, p.at_s) for p in store.profiles.latest()] == [("n1", 2.0), ("n2", 1.5)]


def test_steps_come_back_as_they_were(store):
    full = step(
        user_cpu_s=700.25,
        system_cpu_s=60.25,
        lustre_read_bytes=1 << 40,
        lustre_write_bytes=3 << 20,
        net_in_bytes=5,
        net_out_bytes=6,
        energy_j=77,
    )
    batch = replace(full, step="batch", user_cpu_s=None, energy_j=None)
    store.runs.add(
        [run(job_id=1, steps=(batch, full)), run(job_id=2), run(job_id=3, steps=(full,))]
    )
    assert store.runs.steps_of([1, 2, 3, 3]) == {1: [batch, full], 2: [], 3: [full]}
