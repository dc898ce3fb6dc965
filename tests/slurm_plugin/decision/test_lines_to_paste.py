"""Lines to paste rest on a user's own runs of this work, and chances on runs.

No run is proposed that memory, limit or partition would end.
"""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from predictor.facts import LimitReached
from predictor.job_table import without_ended_runs
from predictor.memory import UNBOUNDED, Memory
from predictor.problems import Problem
from predictor.table import longest_likely
from predictor.types import Point, Verdict
from sacct_ingest.records import JobState, KeyLevel
from slurm_plugin.config.setting_types import Mode, TimeUse
from slurm_plugin.config.settings import Config, Policy, TimeLimit
from slurm_plugin.decision.memory_need import memory_floor
from slurm_plugin.decision.messages import next_run
from slurm_plugin.decision.submitted_job import identity_of
from slurm_plugin.reports.advice_text import render
from tests.slurm_plugin.decision.choosing import tailed
from tests.slurm_plugin.decision.submitting import advisor, submit
from tests.slurm_plugin.decision.test_chances import part
from tests.slurm_plugin.made import NOW, amdahl, cluster, history, job, partition, table

MIB = 2**20
#: An option that somebody could paste: of time, memory or size.
OPTION = re.compile(r"--(?:time|time-min|mem|mem-per-cpu|nodes|ntasks|cpus-per-task|gpus|begin)=")
#: What a guess may say of an option all the same: that Slurm does not take the job as it is.
OF_SLURM = re.compile(r"--(?:time|deadline)=\S+ is the longest that leaves it a minute to start")
CHANCE = re.compile(r"\d %\)|chance of|% sure")


def history_on(nodes, **fields):
    return table(nodes=nodes, observed=nodes, model="history", **fields)


@st.composite
def tables(draw):
    """Tables of all trust: own and others' runs, guesses, one count, one CPU, none finished."""
    counts = draw(st.sets(st.sampled_from((1, 2, 4, 8, 16)), min_size=1))
    make = draw(st.sampled_from((table, tailed, history_on)))
    counts = {min(counts)} if make is history_on else counts
    observed = tuple(Point(n, 100.0 + 3600.0 / n, 3) for n in sorted(counts))
    problems = tuple(
        Problem("wide_interval", "unsure", n)
        for n in draw(st.lists(st.integers(1, 64), max_size=3))
    )
    needs = draw(st.lists(st.sampled_from((100, 4_000, 60_000)), min_size=5, max_size=5))
    unfit = draw(st.sampled_from((0, 0, 0, 1, 2)))
    memory = tuple(
        Memory(n, UNBOUNDED if n <= unfit else need * MIB)
        for n, need in zip((1, 2, 4, 8, 16), needs, strict=True)
    )
    reached = st.sampled_from(
        (None, LimitReached(JobState.TIMEOUT, 3, 1200.0, 3, 3),
         LimitReached(JobState.OUT_OF_MEMORY, 3, 4e9, 3, 3))
    )  # fmt: skip
    level = draw(st.sampled_from(("line", "script", "name", "user")))
    made = make(nodes=sorted(counts), level=level) if make is history_on else make(level=level)
    return replace(
        made,
        owner=draw(st.sampled_from(("alice", "alice", "alice", "", "bob"))),
        observed=observed,
        problems=problems,
        verdict=draw(st.sampled_from(Verdict)),
        one_cpu=counts == {1} and draw(st.booleans()),
        memory=draw(st.sampled_from(((), memory))),
        limit_reached=draw(reached),
        runs=draw(st.integers(1, 40)),
    )


@st.composite
def requests(draw):
    low, high = sorted(draw(st.tuples(st.integers(1, 8), st.integers(1, 32))))
    return job(
        min_nodes=low,
        max_nodes=draw(st.sampled_from((low, high))),
        time_limit=draw(st.sampled_from((None, 1, 10, 60, 600))),
        time_min=draw(st.sampled_from((None, None, 1))),
        deadline=draw(st.sampled_from(("", "", "now+90", "now+10minutes", "now+2hours"))),
        min_mem_per_node=draw(st.sampled_from((None, 1_500, 64_000))),
        comment=draw(st.sampled_from(("", "nimo:app=solve", "nimo:time=set,mem=auto"))),
        **draw(st.sampled_from(({}, {}, {"num_tasks": 16}, {"array_inx": "1-9"}))),
    )


def look(most_min):
    most_s = most_min and 60.0 * most_min
    waits = st.sampled_from(
        (None, lambda *_: [0.0] * 40, lambda n, limit: [600.0 * (limit > 900)] * 40)
    )
    return waits.map(
        lambda wait_of: cluster(
            partition(max_time_s=most_s, node_mem_bytes=64_000 * MIB)
            if wait_of is None
            else replaced(part(wait_of), max_time_s=most_s, node_mem_bytes=64_000 * MIB)
        )
    )


def replaced(made, **fields):
    return type(made)(**{name: getattr(made, name) for name in made.__struct_fields__} | fields)


def filed(learned, request):
    """The table of the request, whatever its level."""
    return replace(learned, key=identity_of(request).key(KeyLevel(learned.level)))


def own_work(learned):
    """The user's own runs of this work, said once more in other words."""
    history_only = learned.model == "history" and not learned.sizes
    return learned.owner == "alice" and not (learned.level in ("name", "user") and history_only)


def texts(site, request):
    """All that a user reads of a job: at submission, and in the advice."""
    answer, _ = submit(site, request)
    advice = site.advise(request, now_s=NOW)
    shown = "\n".join(render(advice, now_s=NOW, every=True, verbose=True))
    return answer, advice, shown


@given(
    learned=tables(),
    request=requests(),
    view=st.sampled_from((None, 20, 600)).flatmap(look),
    mode=st.sampled_from((Mode.ENFORCE, Mode.ADVISE)),
    use=st.sampled_from((TimeUse.SET, TimeUse.ADVISE)),
)
def test_what_a_user_reads_is_supported(learned, request, view, mode, use):
    learned = filed(learned, request)
    site = advisor(Config(mode=mode, time_limit=TimeLimit(use=use)), tables=[learned], look=view)
    answer, advice, shown = texts(site, request)
    lines = (
        advice.directive, advice.time_directive, advice.memory_directive, advice.begin_directive
    )  # fmt: skip
    limits = [(row.limit_s, row.time_min_s) for row in advice.rows]
    chances = [(row.chance, row.no_later, row.later_s) for row in advice.rows]
    if not own_work(learned):
        assert lines == ("", "", "", "")
        assert answer.set is None
        assert set(limits) <= {(None, None)}
        said = OF_SLURM.sub("", f"{answer.message}\n{shown}")
        assert not OPTION.search(said), said
    ran = {point.nodes for point in learned.observed}
    guess = learned.level in ("name", "user") and learned.model == "history"
    for row, own in zip(advice.rows, chances, strict=True):
        supported = not guess and (row.nodes in ran or len(ran) > 1)
        if learned.one_cpu:
            supported = not guess and row.nodes == 1
        assert supported or own == (None, None, None)
    if guess:
        assert not CHANCE.search(f"{answer.message}\n{shown}")
    if learned.one_cpu and not guess:
        assert advice.nodes in (None, 1, request.min_nodes)
    if advice.observe is not None:
        runs_to_its_end(advice.observe, learned, request, view)


def runs_to_its_end(nodes, learned, request, view):
    """Nothing that is known ends a run of this request on so many nodes."""
    where = view.partitions["batch"]
    assert nodes <= where.largest
    limit_s = 60.0 * (request.time_limit or 0) or where.max_time_s or float("inf")
    assert longest_likely(learned, nodes) <= limit_s
    given_mib = request.min_mem_per_node or 64_000
    share = min(given_mib, 64_000) * MIB
    assert memory_floor(learned, share, margin=Policy().memory_margin) <= nodes


@given(learned=tables())
def test_no_page_proposes_a_run_that_would_end_as_earlier_ones_did(learned):
    proposed = {one.observe for one in without_ended_runs(learned).problems if one.observe}
    fewest = min(point.nodes for point in learned.observed)
    for nodes in proposed:
        assert learned.limit_reached is None or nodes >= fewest
        assert all(m.nodes < nodes for m in learned.memory if m.mem_bytes >= UNBOUNDED)
    assert next_run(without_ended_runs(learned)) in {None, *proposed}


def test_a_command_that_never_ran_is_told_no_memory():
    """It was told --mem=100M in place of 1500M, by the user's other jobs of its name."""
    needs = tuple(Memory(n, 50 * MIB) for n in (1, 2, 4))
    guess = replace(history(), nodes=(1, 2, 4), median_s=(9.0,) * 3, low_s=(8.0,) * 3,
                    high_s=(10.0,) * 3, curve_sd=(0.0,) * 3, memory=needs, runs=9)  # fmt: skip
    request = job(min_nodes=2, max_nodes=2, min_mem_per_node=1500)
    made = advisor(tables=[guess]).advise(request, now_s=NOW)
    assert made.guess
    assert (made.memory_directive, made.directive, made.time_directive) == ("", "", "")
    own = filed(replace(guess, level="line"), request)
    made = advisor(tables=[own]).advise(request, now_s=NOW)
    assert made.memory_directive == "#SBATCH --mem=100M"


@pytest.mark.parametrize("nodes", [1, 2])
def test_a_program_of_one_cpu_is_not_sent_to_two_nodes(nodes):
    """Tables of parts and sizes have no layout: it was sent there, 98 % sure to end no later."""
    learned = table(amdahl(0.0, 1000.0), observed=(1,), one_cpu=True, level="line")
    site = advisor(tables=[filed(learned, job())])
    made = site.advise(job(min_nodes=nodes, max_nodes=nodes), now_s=NOW)
    assert made.directive == "#SBATCH --nodes=1"
    assert all(row.no_later is None for row in made.rows if row.nodes > 1)
    answer, _ = submit(site, job(min_nodes=1, max_nodes=4))
    assert answer.reason == "serial"
    assert answer.set is None
