"""Node counts of advice save at least what they cost: over made-up stores."""

from sacct_ingest.runs.layout import Unit

#: Options that say how much a job asks for, with the sizes that it is asked for with.
SIZES = {"nodes": (1, 2, 3, 4, 6, 8), "cpus-per-task": (1, 2, 4, 8, 16)}


def requests(usual, unit):
    """The usual job with one size after the other in place of its own."""
    option = "nodes" if unit is Unit.NODES else "cpus-per-task"
    if option in usual.options and usual.options[option] != "0":
        for size in SIZES[option]:
            yield usual._replace(options=usual.options | {option: str(size)})


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
