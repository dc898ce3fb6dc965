"""Memory: fewest nodes that hold a problem, and what is taken off where runs do not need it."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from predictor.facts import LimitReached
from predictor.memory import Memory, MemoryNeed
from sacct_ingest.records import KeyLevel
from sacct_ingest.runs.layout import Each, Layout, Unit
from sacct_ingest.runs.sharing import SharedTag
from slurm_plugin.config.setting_types import MemoryUse, Mode
from slurm_plugin.config.settings import MemorySettings, ModeRule, Sharing
from slurm_plugin.decision.memory_need import NEVER, memory_floor
from slurm_plugin.decision.submitted_job import identity_of
from slurm_plugin.protocol.decision_messages import Change
from tests.slurm_plugin.decision.submitting import advisor, submit
from tests.slurm_plugin.made import NOW, cluster, history, job, partition, table

GIB = 2**30


def floor(gib, *look, margin=1.0):
    recorded = table(memory=tuple(Memory(nodes, need * GIB) for nodes, need in look))
    return memory_floor(recorded, None if gib is None else gib * GIB, margin=margin)


@pytest.mark.parametrize(
    ("gib", "look", "margin", "fewest"),
    [
        (None, [(4, 64)], 1.0, 1),
        (64, [], 1.0, 1),
        # Below the fewest observed each node needs more.
        (64, [(4, 64), (8, 40)], 1.0, 4),
        (128, [(4, 64), (8, 40)], 1.0, 2),
        (100, [(4, 64), (8, 40)], 1.0, 3),
        # The margin counts where nothing was observed.
        (128, [(4, 64)], 1.2, 3),
        (64, [(4, 64)], 1.2, 4),
        # A count whose need was too large is excluded.
        (50, [(2, 100), (4, 64), (8, 40)], 1.0, 7),  # 8 · 40 / 50
        (40, [(2, 100), (4, 64), (8, 40)], 1.2, 8),
        (30, [(2, 100), (4, 64), (8, 40)], 1.0, NEVER),
    ],
)
def test_the_fewest_nodes_whose_memory_holds_it(gib, look, margin, fewest):
    assert floor(gib, *look, margin=margin) == fewest


needed = st.dictionaries(st.integers(1, 64), st.integers(1, 500), min_size=1, max_size=6)


@given(needed, st.integers(1, 500), st.floats(1, 2))
def test_more_memory_never_needs_more_nodes(needs, gib, margin):
    rising = sorted(needs.items())
    assert floor(gib + 1, *rising, margin=margin) <= floor(gib, *rising, margin=margin)


@given(needed, st.floats(1, 2))
def test_what_ran_on_all_counts_fits_on_all(needs, margin):
    assert floor(max(needs.values()), *sorted(needs.items()), margin=margin) <= min(needs)


TIME = LimitReached("TIMEOUT", 2, 600.0)
MEMORY = LimitReached("OUT_OF_MEMORY", 3, 2.0**30)
LAST = "nimo: the last 2 runs of this job reached their time limit of 10 min; "
SHORT = "nimo: the last 3 runs of this job ran out of memory with 1024M; "
PART = partition(max_time_s=900.0, node_mem_bytes=3 * 2**30, node_cpus=4)


def message(reached, made=history, **fields):
    asked = job(**{"min_nodes": 4, "max_nodes": 4, **fields})
    known = filed(made(limit_reached=reached))
    service = advisor(tables=[known], look=cluster(PART), mode=Mode.ADVISE)
    return submit(service, asked)[0].message


def filed(made):
    """A table of the command of jobs here, not of all that have its name."""
    return replace(made, level="line", key=identity_of(job()).key(KeyLevel.LINE))


def test_sbatch_says_nothing_of_limits_that_other_jobs_of_the_name_reached():
    guess = history(limit_reached=TIME)
    service = advisor(tables=[guess], look=cluster(PART), mode=Mode.ADVISE)
    asked = job(min_nodes=4, max_nodes=4, time_limit=10)
    assert submit(service, asked)[0].message == ""
    advised = service.advise(asked, now_s=NOW).limit_text
    assert advised == "Its time limit of 10 min may be short: some such jobs take all of it."


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"time_limit": 10}, f"{LAST}ask for --time=00:15:00"),
        ({"time_limit": 5}, f"{LAST}ask for --time=00:15:00"),
        ({"time_limit": 11}, ""),
        ({"time_limit": None}, ""),
        ({"time_limit": 10, "user_name": "bob"}, ""),
    ],
)
def test_a_time_limit_that_did_not_do_is_named_with_the_next(fields, line):
    assert message(TIME, **fields) == line


def test_where_no_longer_limit_is_allowed_it_says_so():
    line = message(LimitReached("TIMEOUT", 2, 900.0), time_limit=15)
    assert line.endswith(
        "15 min; no longer one is allowed here: use more nodes, or let the job save its state"
    )


def test_a_good_prediction_says_which_limit_does():
    # T(4) = 1000 s, at most 1100 s.
    assert message(TIME, table, time_limit=10) == f"{LAST}ask for --time=00:15:00"
    assert message(TIME, table, time_limit=10, min_nodes=16, max_nodes=16) == ""


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"min_mem_per_node": 1024}, f"{SHORT}ask for --mem=2048M"),
        ({"min_mem_per_cpu": 512, "cpus_per_task": 2}, f"{SHORT}ask for --mem-per-cpu=1024M"),
        ({"min_mem_per_node": 1025}, ""),
    ],
)
def test_memory_that_did_not_do_is_named_with_the_next(fields, line):
    assert message(MEMORY, **fields) == line


def test_more_memory_than_a_node_has_is_not_named():
    line = message(LimitReached("OUT_OF_MEMORY", 2, 2.0**31), min_mem_per_node=2048)
    assert line.endswith("a node has 3072M: ask for all of it with --mem=0, or for more nodes")


def test_advice_says_it_too_and_observing_says_nothing():
    known = filed(history(limit_reached=TIME))
    made = advisor(tables=[known], look=cluster(PART), mode=Mode.OBSERVE)
    asked = job(min_nodes=4, max_nodes=4, time_limit=10)
    assert submit(made, asked)[0].message == ""
    advice = made.advise(asked, now_s=NOW)
    assert advice.limit_text == f"The{LAST.removeprefix('nimo: the')}ask for --time=00:15:00."


def test_a_limit_that_ends_some_runs_is_named_in_advice_alone():
    often = LimitReached("TIMEOUT", 0, 600.0, 19, 60)
    assert message(often, time_limit=10) == ""
    known = filed(history(limit_reached=often))
    made = advisor(tables=[known], look=cluster(PART), mode=Mode.ADVISE)
    advice = made.advise(job(min_nodes=4, max_nodes=4, time_limit=10), now_s=NOW)
    assert advice.limit_text == (
        "19 of the last 60 runs of this job reached their time limit of 10 min; "
        "ask for --time=00:15:00."
    )
    key = identity_of(job()).key(KeyLevel.LINE)
    for minutes, named in ((10, "--time=00:23:00"), (17, "--time=00:26:00")):
        often = LimitReached("TIMEOUT", 0, 60.0 * minutes, 19, 60)
        known = history(limit_reached=often, level="line", key=key)
        asked = job(min_nodes=4, max_nodes=4, time_limit=minutes)
        made = advisor(tables=[known], mode=Mode.ADVISE).advise(asked, now_s=NOW)
        assert made.time_directive == f"#SBATCH {named}"
        assert made.limit_text.endswith(f"ask for {named}.")


MIB = 2**20
COUNTS = (1, 2, 4, 8, 16)


def need(high=1000, given=8000, sizes=COUNTS, runs=9, predictions=9, inside=9):
    return MemoryNeed(
        runs=runs,
        predictions=predictions,
        inside=inside,
        high=tuple(Memory(n, high * MIB) for n in sizes),
        given=tuple(Memory(n, given * MIB) for n in sizes),
    )


def asked(**fields):
    return job(
        **{"min_nodes": 4, "max_nodes": 4, "min_mem_per_node": 8000, "comment": "nimo:mem=auto"}
        | fields
    )


def look(**fields):
    return cluster(partition(**{"node_mem_bytes": 64_000 * MIB, "node_cpus": 16} | fields))


def lowered(request=None, *, learned=None, where=None, **settings):
    made = advisor(tables=[learned or table(need=need())], look=where or look(), **settings)
    return submit(made, request or asked())


def test_it_goes_down_step_by_step():
    answer, row = lowered()
    assert answer.set == Change(min_mem_per_node=6000)  # three quarters of 8000
    assert answer.message == "nimo: this job has --mem=6000M instead of 8000M"
    assert (row.given_mem_mib, row.asked_mem_mib, row.applied) == (6000, 8000, True)
    assert row.reason == "fixed_count"
    of_tasks, _ = lowered(asked(array_inx="0-9"))
    assert of_tasks.set == answer.set
    further, _ = lowered(learned=table(need=need(given=2000)))
    assert further.set.min_mem_per_node == 1500


def test_it_stops_at_what_was_ever_needed_and_the_margin():
    answer, _ = lowered(learned=table(need=need(given=1300)))
    assert answer.set.min_mem_per_node == 1200


@pytest.mark.parametrize(
    "learned",
    [
        None,
        need(runs=4),  # since one ended for lack of memory
        need(given=0, sizes=()),
        need(predictions=10, inside=8),
        need(sizes=(8, 16)),
        need(high=6500),
    ],
)
def test_a_job_keeps_its_memory_where_too_little_is_available(learned):
    answer, row = lowered(learned=table(need=learned))
    assert (answer.action, row.given_mem_mib) == ("keep", None)


@pytest.mark.parametrize(
    "fields",
    [
        {"comment": ""},
        {"comment": "nimo:mem=off"},
        {"comment": "nimo:mem=auto,off"},
        {"script": ""},
        {"shared": 0},
        {"hook": 0},
        {"het_job_offset": 0},
        {"min_mem_per_node": 0},
        {"min_mem_per_node": None, "mem_per_tres": "gres:gpu:100"},
        {"min_mem_per_node": 6200},
        {"min_nodes": None, "max_nodes": None, "num_tasks": 4, "min_cpus": 4},
    ],
)
def test_other_jobs_keep_their_memory(fields):
    answer, row = lowered(asked(**fields))
    assert (answer.action, row.given_mem_mib) == ("keep", None)


def test_only_the_owners_own_runs_lower_it():
    shared = Sharing(
        tags=(SharedTag(name="s", application="wrf", users=("alice", "bob"), decide=True),)
    )
    others = table(level="tag", key="@s/wrf", owner="", need=need())
    request = asked(comment="nimo:app=wrf,mem=auto")
    answer, row = lowered(request, learned=others, sharing=shared)
    assert (row.key, answer.action) == ("@s/wrf", "keep")


def test_memory_by_the_cpu_stays_so():
    request = asked(
        min_mem_per_node=None, min_mem_per_cpu=1000, ntasks_per_node=8, num_tasks=32, min_cpus=32
    )
    answer, row = lowered(request)
    assert answer.set == Change(min_mem_per_cpu=750)
    assert (row.given_mem_mib, row.asked_mem_mib) == (6000, 8000)


def test_cpus_that_come_with_memory_stay():
    """4000 MiB for each of two CPUs are 8 CPUs of 1000; of 6000 they were six."""
    answer, _ = lowered(where=look(max_mem_cpu_mib=1000))
    assert answer.action == "keep"


def test_a_job_without_memory_of_its_own_has_the_default_or_the_nodes():
    none = asked(min_mem_per_node=None)
    answer, row = lowered(none, where=look(mem_node_mib=10_000))
    assert (answer.set.min_mem_per_node, row.asked_mem_mib) == (6000, 10_000)
    answer, row = lowered(none)
    assert (answer.set.min_mem_per_node, row.asked_mem_mib) == (6000, 64_000)
    # Where Slurm does not count memory, there is none to lower.
    answer, _ = lowered(none, where=look(mem_cpu_mib=0))
    assert answer.action == "keep"


def test_it_goes_with_a_count_that_is_chosen():
    answer, row = lowered(asked(min_nodes=1, max_nodes=8))
    assert answer.set.min_nodes == row.nodes
    assert answer.set.min_mem_per_node == 6000


def test_a_range_that_stands_has_the_most_that_any_count_needs():
    made = need(given=100)
    high = (Memory(1, 5000 * MIB), *made.high[1:])
    learned = table(need=replace(made, high=high), knee=None)
    request = asked(min_nodes=1, max_nodes=8, exc_nodes="n9")
    assert lowered(request, learned=learned)[0].set.min_mem_per_node == 6000
    assert lowered(learned=learned)[0].set.min_mem_per_node == 1200


def test_a_size_in_cpus_has_memory_of_its_own():
    learned = table(
        unit=Unit.CPUS, layout=Layout(1, each=Each.JOB, nodes=1), need=need(sizes=(2, 4, 8))
    )
    request = asked(min_nodes=None, max_nodes=None, cpus_per_task=4, min_cpus=4)
    where = look(mem_cpu_mib=500)
    assert lowered(request, learned=learned, where=where)[0].set == Change(min_mem_per_node=6000)
    wide = asked(min_nodes=2, max_nodes=2, num_tasks=1, cpus_per_task=4, min_cpus=4)
    assert lowered(wide, learned=learned, where=where)[0].action == "keep"


def test_the_site_may_want_it_of_all_jobs_or_of_none():
    every = MemorySettings(use=MemoryUse.AUTO)
    assert lowered(asked(comment=""), memory=every)[0].action == "set"
    assert lowered(asked(comment="nimo:mem=off"), memory=every)[0].action == "keep"
    assert lowered(memory=MemorySettings(use=MemoryUse.OFF))[0].action == "keep"
    rule = ModeRule(user="alice", memory=MemoryUse.AUTO)
    assert lowered(asked(comment=""), rules=(rule,))[0].action == "set"


def test_in_observe_mode_it_is_only_recorded():
    answer, row = lowered(mode=Mode.OBSERVE)
    assert (answer.action, row.applied, row.given_mem_mib) == ("keep", False, 6000)


@pytest.mark.parametrize(
    ("setting", "given"), [({"least_share": 0.9}, 7200), ({"step": 0.5}, 4000)]
)
def test_the_least_share_and_the_step_are_the_sites(setting, given):
    assert lowered(memory=MemorySettings(**setting))[0].set.min_mem_per_node == given


def test_a_job_that_names_no_memory_has_a_least_that_the_hook_takes_too():
    little = table(need=need(high=50, given=100))
    where = look(mem_node_mib=4000)
    assert lowered(learned=little, where=where)[0].set.min_mem_per_node == 400  # 5 % of 8000
    unasked = asked(min_mem_per_node=None)
    answer, _ = lowered(unasked, learned=little, where=where)
    assert answer.set.min_mem_per_node == 256
