"""What a job needs of memory, by what its earlier runs needed."""

from math import ceil

from predictor.memory import UNBOUNDED, Memory
from predictor.prediction_table import PredictionTable
from predictor.table import shared_out
from sacct_ingest.runs.layout import Unit

#: Runs that have to speak for less memory than a job asks for.
_RUNS = 3
_MIB = 2**20
_ROUND_MIB = 100
#: More nodes than any cluster has: no count has enough memory.
NEVER = 2**31


def memory_floor(table: PredictionTable, mem_node_bytes: int | None, *, margin: float) -> int:
    """Fewest nodes on which the job's memory fits, or is expected to.

    What a node needed where the application ran on ``n`` nodes fits there.  On fewer nodes each
    one needs more, at most ``n`` over their number times as much, and ``margin`` more than that
    (MaxRSS is sampled).  On more nodes none needs less for sure: what was too large on one count
    is only taken to fit on a larger one where it was seen to.

    mem_node_bytes: memory that the job gets on each node; None: unknown, all counts fit.
    margin: ratio, at least 1.
    """
    if not (table.memory and mem_node_bytes):
        return 1
    unfit = [one.nodes for one in table.memory if one.mem_bytes > mem_node_bytes]
    beyond = unfit[-1] if unfit else 0
    measured = next((one for one in table.memory if one.nodes > beyond), None)
    if measured is None:
        return NEVER
    scaled = ceil(measured.nodes * measured.mem_bytes * margin / mem_node_bytes)
    return max(min(measured.nodes, scaled), beyond + 1)


def memory_to_ask(table: PredictionTable, size: int, *, margin: float) -> int | None:
    """Memory to ask for, MiB: `memory_needed` in round numbers."""
    needed = memory_needed(table, size, margin=margin)
    return None if needed is None else _ROUND_MIB * ceil(needed / (_ROUND_MIB * _MIB))


def memory_needed(table: PredictionTable, size: int, *, margin: float) -> float | None:
    """Memory for a job of this size, bytes: what runs are to be given.

    Of a node where the table counts nodes, else of the whole job.  None: beyond what was run, of
    too few runs, or runs of this size or a neighbouring one ended for lack of memory.  Of one job
    the need on the count that it asks for says that on others: fewer nodes share it out.

    margin: ratio, at least 1, to the highest need ever where it is all that a table says.
    """
    share = 1.0
    if table.asked and table.unit is Unit.NODES:
        share = shared_out(table.asked, size)
        size = table.asked
    counts = [one.nodes for one in table.memory]
    if table.runs < _RUNS or not counts or not counts[0] <= size <= counts[-1]:
        return None
    below = max(n for n in counts if n <= size)
    above = min(n for n in counts if n >= size)
    near = (one for one in table.memory if below <= one.nodes <= above)
    if any(one.mem_bytes >= UNBOUNDED for one in near):
        return None
    if table.need is None:
        # What larger runs needed counts where it is less: then some smaller one needed more.
        smaller = (one.mem_bytes for one in table.memory if one.nodes <= above)
        needed = margin * max(need for need in smaller if need < UNBOUNDED)
    elif (high := most_between(table.need.high, size, size)) is not None:
        needed = high
    else:
        return None
    return needed * share


def most_between(needs: tuple[Memory, ...], low: int, high: int) -> int | None:
    """Most memory on sizes from low to high, and those beside them; None: they were not run."""
    sizes = [one.nodes for one in needs]
    if not sizes or low < sizes[0] or high > sizes[-1]:
        return None
    first = max(n for n in sizes if n <= low)
    last = min(n for n in sizes if n >= high)
    return max(one.mem_bytes for one in needs if first <= one.nodes <= last)
