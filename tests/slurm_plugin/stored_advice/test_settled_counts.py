"""Node counts of advice settle, and save at least what they cost: over made-up stores."""

from sacct_ingest.runs.layout import Unit
from slurm_plugin.reports.advice_text import options_of

#: Options that say how much a job asks for, with the sizes that it is asked for with.
SIZES = {"nodes": (1, 2, 3, 4, 6, 8), "cpus-per-task": (1, 2, 4, 8, 16)}


def requests(usual, unit):
    """The usual job with one size after the other in place of its own."""
    option = "nodes" if unit is Unit.NODES else "cpus-per-task"
    if option in usual.options and usual.options[option] != "0":
        for size in SIZES[option]:
            yield usual._replace(options=usual.options | {option: str(size)})


def with_lines(job, advice):
    """The job that somebody submits who pastes the size that is advised."""
    words = (word.removeprefix("--").partition("=") for word in options_of(advice).split())
    lines = {name: value for name, _, value in words if name in job.options}
    return job._replace(options=job.options | lines)


def test_the_advised_count_is_kept_when_it_is_asked_for(jobs):
    changed = 0
    for table, usual, advise in jobs:
        for job in requests(usual, table.unit):
            advice = advise(job)
            pasted = with_lines(job, advice)
            if advice.nodes and pasted.options != job.options:
                assert advise(pasted).nodes == advice.nodes, (table.label, job.options)
                changed += 1
    assert changed


def test_fewer_nodes_save_at_least_the_share_that_they_cost(jobs):
    for table, usual, advise in jobs:
        for job in requests(usual, table.unit):
            advice = advise(job)
            rows = {row.nodes: row for row in advice.rows}
            asked, advised = rows.get(advice.asked), rows.get(advice.nodes)
            if asked and advised and advised.nodes < asked.nodes:
                later = advised.time_s / asked.time_s
                saved = advised.node_hours / asked.node_hours
                assert later * saved <= 1.0 + 1e-6, (table.label, job.options)
