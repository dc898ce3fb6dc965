"""Memory that a job asks for and its runs do not need: taken off step by step, of its owner's."""

from dataclasses import replace

import pytest

from predictor.types import Memory, MemoryNeed
from sacct_ingest.runs.layout import Each, Layout, Unit
from sacct_ingest.runs.sharing import SharedTag
from slurm_plugin.config.setting_types import MemoryUse, Mode
from slurm_plugin.config.settings import MemorySettings, ModeRule, Sharing
from slurm_plugin.protocol.decision_messages import Change
from tests.slurm_plugin.decision.submitting import advisor, submit
from tests.slurm_plugin.made import cluster, job, partition, table

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
