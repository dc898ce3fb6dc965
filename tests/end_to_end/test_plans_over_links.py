"""Plans on two clusters over a shaped link: staged, read in place, stayed, each when it is right.

Sensors measure the link, ``nimo lab plan`` chooses, and each way is run: the one that it chose ends
first.
"""

import pytest

from sacct_ingest.records import Resource
from sacct_ingest.store import Store
from tests.end_to_end.linked_clusters import FAR, NEAR, linked, way_of
from tests.processes import wait_until
from tests.sacct_ingest.probes import slow_link

pytestmark = [pytest.mark.cluster, pytest.mark.long]
SIZE = 8_000_000


@pytest.fixture(scope="module")
def clusters(slurm_cluster):
    if reason := slow_link.missing():
        pytest.skip(reason)
    with linked(slurm_cluster) as both:
        both.file("raw", SIZE)
        yield both


def judged(link, name, tasks):
    """Give the way that is planned, and the way that ended first of all three."""
    plan = link.planned(link.workflow(name, tasks, SIZE))
    took = link.ends(name, tasks, SIZE)
    first = min(took, key=lambda way: took[way] or float("inf"))
    return way_of(plan), first, took


def test_staged_where_it_is_read_several_times_over_a_fast_link(clusters):
    with clusters.link(24) as link:
        link.transfer("raw")
        planned, first, took = judged(link, "fast", clusters.passes(6))
        assert (planned, first) == ("staged", "staged"), took
        # The copy measured itself: the next one is predicted from it, too.
        with Store.open(f"sqlite:///{link.folder}/nimo.db") as store:
            moved = store.probes.series(Resource.TRANSFER, NEAR, FAR, since_s=0.0)
        assert [one.size_bytes for one in moved] == [SIZE, SIZE]
        assert all(1e6 < one.value < 3e6 for one in moved)
        assert moved[1].took_s % 1, "Slurm's times are whole seconds"


def test_stayed_where_the_link_is_slow(clusters):
    with clusters.link(4) as link:
        link.transfer("raw")
        planned, first, took = judged(link, "slow", clusters.passes(6))
        assert (planned, first) == ("stayed", "stayed"), took
    # What was interrupted leaves nothing behind.
    queue = ("squeue", "-h", "-M", f"{NEAR},{FAR}", "-o", "job %i")
    wait_until(lambda: "job" not in clusters.near.run(*queue).stdout, what="empty queues")


def test_read_in_place_where_that_is_hidden_behind_computing(clusters):
    """Of what it takes to read and compute at once, samples of real runs tell."""
    tasks = clusters.stream(15)
    with clusters.link(16) as link:
        link.transfer("raw")
        planned, first, took = judged(link, "hidden", tasks)
        assert (planned, first) == ("read in place", "read in place"), took
