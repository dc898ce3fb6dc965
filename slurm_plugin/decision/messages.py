"""What users read: at submission, and in the plain words of an advice."""

from collections.abc import Callable
from math import ceil, inf

from predictor.facts import LimitReached
from predictor.job_table import is_otherwise
from predictor.memory import UNBOUNDED
from predictor.prediction_table import PredictionTable
from predictor.problems import Problem
from predictor.stored_table import is_outdated
from predictor.table import at, covers, longest_likely, verdict_at
from predictor.types import Prediction, Verdict
from sacct_ingest.records import JobState
from sacct_ingest.runs.layout import Unit
from sacct_ingest.runs.submission import JobKind
from sacct_ingest.text.durations import duration_range, duration_text, slurm_time
from slurm_plugin.decision import sizes
from slurm_plugin.decision.allowed_counts import is_own_work, is_serial
from slurm_plugin.decision.better_count import better_count
from slurm_plugin.decision.failures import failures_text
from slurm_plugin.decision.memory_need import memory_floor
from slurm_plugin.decision.node_options import Option
from slurm_plugin.decision.policy import Action, Decision
from slurm_plugin.decision.request import Request
from slurm_plugin.decision.situation import Situation
from slurm_plugin.decision.time_limits import TimeLimits, whole_minutes
from slurm_plugin.protocol.decision_messages import Change
from slurm_plugin.protocol.reasons import Reason
from slurm_plugin.slurm.cluster_state import lower_of
from slurm_plugin.slurm.footprint import memory_bytes
from slurm_plugin.text.formatting import count, percent, printable, short_clock

#: Why nothing is made of a prediction that a user could paste.
UNTRUSTED = (Reason.OUT_OF_BAND, Reason.DISTRUSTED, Reason.OTHERS_RUNS)
#: Fewest runs whose use of GPUs says what is enough.
_FEWEST_GPU_RUNS = 3
_MIB = 2**20
#: Problems that the verdict tells already.
_TOLD_OTHERWISE = frozenset({"no_identity"})
#: Problems of another count than those that ran: where there is nothing to scale they say nothing.
_OF_SCALING = _TOLD_OTHERWISE | {
    *("no_curve", "special_counts", "declining_or_anomaly", "declining", "anomaly", "stepwise"),
    *("high_fitting_error", "linear_section", "alternative_fit", "disagreement", "two_sizes"),
    *("undecided", "not_run", "layouts"),
}
#: What a job has, or lacks, that no run of its work did.
_OF_THE_JOB = frozenset({"no_size", "edited_script", "new_input", "new_work_dir"})
#: Problems of runs that did not do their work come before all others, then a run time without end.
_URGENT = ("unfinished", "failed_steps", "unbounded", "cut_off", "cut_short")
_OPENINGS = {
    Verdict.RELIABLE: "The prediction is reliable",
    Verdict.DOUBTFUL: "The prediction is doubtful",
    Verdict.REFUSED: "There are too few runs for a prediction",
}
_DEGREES = {
    Verdict.RELIABLE: "reliable",
    Verdict.DOUBTFUL: "doubtful",
    Verdict.REFUSED: "not reliable enough",
}
_GUESSED = {"name": "your jobs of this name with another command", "user": "all your jobs"}


def at_submission(decision: Decision, request: Request) -> str:
    """Line about a better count or limit for the user who submits; empty where there is none."""
    unit = request.unit
    if decision.chosen is None:
        return ""
    limit, which = time_options(decision.chosen.limits), count(decision.chosen.nodes, "node")
    if limit:
        limit = f"nimo: {limit} is enough for this job on {which} and may start it earlier"
    return "\n".join(filter(None, (better_count(decision, unit), unit.words(limit))))


def announced(decision: Decision, request: Request, advised: int | None) -> str:
    """Say on which count sbatch will run a job that is advised another one; empty: on that.

    decision: of the job as it is asked for.
    """
    chosen, limit = decision.chosen, ""
    if decision.action is not Action.SET or chosen is None or chosen.nodes == advised:
        return ""
    own_s = request.asked_limit_s or inf
    if chosen.limit_s is not None and chosen.limit_s > own_s:
        limit = f" and --time={slurm_time(chosen.limit_s)}"
    what = f"As it is, sbatch will run this on {request.unit.counted(chosen.nodes)}{limit}"
    if decision.learns:
        return f"{what}, {decision.learns.purpose}; nimo:learn=off forbids that."
    return f"{what}: {request.unit.words(decision.reason.text)}."


def limit_reached(
    case: Situation,
    nodes: int | None,
    given: Change | None = None,
    *,
    often: bool = False,
    advised_s: float = 0.0,
) -> str:
    """Line for a user whose last runs were ended by the limit that this job has; else empty.

    nodes: count that the job gets; None: unknown.
    given: what is written into it.
    often: also of a limit that ended only a part of the runs.
    advised_s: time limit in seconds that the job is advised otherwise; 0: none.
    """
    table, given = case.table, given or Change()
    ended = table.limit_reached if table else None
    if table is None or ended is None or not _is_own_runs(case, table):
        return ""
    if ended.runs < 2 and not often:
        return ""
    last = f"nimo: the last {ended.runs} runs of this job"
    if often and ended.often > ended.runs:
        last = f"nimo: {ended.often} of the last {ended.of} runs of this job"
    if ended.state == JobState.TIMEOUT:
        limit_s = max(case.request.asked_limit_s or inf, 60.0 * (given.time_limit or 0))
        if limit_s > ended.limit:
            return ""
        # A limit that ended earlier runs would not do either, however little this job asks for.
        next_s = beyond_reached(ended, max(limit_s, ended.limit))
        longer = _longer_limit(case, table, nodes, limit_s, next_s, advised_s)
        reached = f"{last} reached their time limit of {duration_text(ended.limit)}"
        return longer and f"{reached}; {longer}"
    memory = memory_bytes(case.request.resources, case.partition)
    if memory is None or memory > ended.limit:
        return ""
    more = _more(case, memory, int(ended.limit))
    return f"{last} ran out of memory with {int(ended.limit) // _MIB}M; {more}"


def beyond_reached(ended: LimitReached, limit_s: float) -> float:
    """Time limit in seconds to ask for in place of one that ended runs.

    Half as much again does where some runs did not need it all.
    """
    return whole_minutes(limit_s * (1.5 if ended.often > ended.runs else 2.0))


def _longer_limit(
    case: Situation,
    table: PredictionTable,
    nodes: int | None,
    limit_s: float,
    next_s: float,
    advised_s: float,
) -> str:
    """Say what to ask for after a limit that did not do; nothing where it surely does now."""
    most_s = (case.partition.max_time_s if case.partition else None) or inf
    if nodes and covers(table, nodes) and verdict_at(table, nodes) is Verdict.RELIABLE:
        high_s = at(table, nodes).high_s
        if high_s <= limit_s:
            return ""
        next_s = whole_minutes(high_s)
    if limit_s >= most_s:
        return "no longer one is allowed here: use more nodes, or let the job save its state"
    return f"ask for --time={slurm_time(min(max(next_s, advised_s), most_s))}"


def _more(case: Situation, memory: int, ended: int) -> str:
    """Say what to ask for where ``memory`` bytes are asked for, and runs with ``ended`` failed."""
    most = case.partition.node_mem_bytes if case.partition else None
    each = case.request.resources.min_mem_per_cpu
    # What earlier runs had would not do either, however little this job asks for.
    needed = 2 * max(memory, ended)
    if most and needed > most:
        return f"a node has {most // _MIB}M: ask for all of it with --mem=0, or for more nodes"
    if each:
        return f"ask for --mem-per-cpu={ceil(each * needed / memory)}M"
    return f"ask for --mem={needed // _MIB}M"


def time_options(limits: TimeLimits | None) -> str:
    """Options of sbatch for a time limit; empty for none.

    >>> time_options(TimeLimits(1200.0, 900.0))
    '--time=00:20:00 --time-min=00:15:00'
    """
    if limits is None:
        return ""
    least = f" --time-min={slurm_time(limits.least_s)}" if limits.least_s else ""
    return f"--time={slurm_time(limits.limit_s)}{least}"


def _urgency(problem: Problem) -> int:
    return _URGENT.index(problem.name) if problem.name in _URGENT else len(_URGENT)


def problem_texts(table: PredictionTable, user: str = "") -> list[str]:
    """Say what speaks against a prediction, a sentence each, the worst first.

    user: who is told of failed runs already, where they are the user's own.
    """
    left_out = _OF_SCALING if is_serial(table) else _TOLD_OTHERWISE
    ends = {one.state for one in table.endings} - {JobState.COMPLETED.value}
    if ends == {JobState.FAILED.value} and failures_text(table, user):
        left_out |= {"unfinished"}
    problems = [one for one in table.problems if one.name not in left_out]
    return [sentence(one.text) for one in sorted(problems, key=_urgency)]


def job_text(table: PredictionTable) -> str:
    """Say in what a job differs from the runs that its prediction is made of; empty: in nothing."""
    texts = [sentence(one.text) for one in table.problems if one.name in _OF_THE_JOB]
    return " ".join(texts)


def next_run(
    table: PredictionTable, largest: float = inf, ended: Callable[[int], bool] = lambda _: False
) -> int | None:
    """Count on which one more run would help most.

    None where nothing is missing, or no run of this work says what would be.

    largest: most nodes that there are.
    ended: says whether a run on a count would be ended.
    """
    if is_serial(table) or table.is_guess:
        return None
    counts = (one.observe for one in table.problems if one.observe is not None)
    return next((n for n in counts if n <= largest and not ended(n)), None)


def would_end(case: Situation, margin: float) -> Callable[[int], bool]:
    """Say which counts the job as it is asked for would not complete on.

    By its partition, its limit, or its memory.

    margin: ratio on the memory that runs needed.
    """
    request, table, supply = case.request, case.table, case.supply
    limit_s = request.asked_limit_s or (supply.longest_s if supply else None) or inf
    bounds = (supply.fewest, supply.most) if supply else (1, inf)
    share = lower_of(request.mem_node_bytes, supply.node_mem_bytes if supply else None)

    def ended(nodes: int) -> bool:
        if table is None or not table.nodes or not bounds[0] <= nodes <= bounds[1]:
            return True
        if nodes < memory_floor(table, share, margin=margin):
            return True
        return longest_likely(table, nodes) > limit_s

    return ended


def short_memory(case: Situation, margin: float) -> list[str]:
    """Say that a run which would help most does not fit into the job's memory; none: it does.

    margin: as of `would_end`.
    """
    table, supply = case.table, case.supply
    share = lower_of(case.request.mem_node_bytes, supply.node_mem_bytes if supply else None)
    nodes = next_run(table, supply.most if supply else inf) if table else None
    if table is None or share is None or nodes is None:
        return []
    if nodes >= memory_floor(table, share, margin=margin):
        return []
    measured = next((one for one in table.memory if one.nodes >= nodes), table.memory[-1])
    need = measured.mem_bytes * max(measured.nodes / nodes, 1.0)
    if need >= UNBOUNDED:
        return []
    needs = f"{table.unit.counted(nodes)} {'needs' if nodes == 1 else 'need'}"
    each = "" if nodes == 1 else " each"
    return [f"{needs} about {ceil(need / _MIB)}M{each}; you ask for {share // _MIB}M."]


def verdict_text(table: PredictionTable, nodes: int | None = None) -> str:
    """Say in one sentence how far a prediction can be trusted.

    nodes: count that the verdict is about, where another one holds there than elsewhere.
    """
    if is_outdated(table) or not (table.nodes or table.is_guess):
        return "There is no prediction."
    if table.is_guess:
        return f"Low confidence: based on {guessed_from(table)}, not on this application."
    if is_serial(table):
        return "All runs used one CPU: no run shows what more would do."
    if is_otherwise(table) or not table.is_curve:
        return _without_curve(table)
    if nodes is not None and table.verdict is not verdict_at(table, nodes):
        return f"{_OPENINGS[verdict_at(table, nodes)]} on {table.unit.counted(nodes)}."
    each = zip(table.nodes, table.verdicts, strict=False)
    there = [(n, one) for n, one in each if n <= (table.in_cluster or n)]
    sure = [n for n, one in there if one is table.verdict]
    where = ""
    if 0 < len(sure) < len(there):
        several = f"{sure[0]} to {sure[-1]} {table.unit.plural}"
        where = f" on {table.unit.counted(sure[0]) if sure[0] == sure[-1] else several}"
    return f"{_OPENINGS[table.verdict]}{where}."


def _without_curve(table: PredictionTable) -> str:
    if is_otherwise(table):
        return "There is no prediction for this layout."
    if any(one.name == "unbounded" for one in table.problems):
        return "There is no median run time: too many runs were cut off."
    if table.layout.shape:  # of a heterogeneous job, whose counts stay
        return f"The prediction is {_DEGREES[table.verdict]}."
    if table.change is None or not table.change.learnt:
        return "There are run times, but no scaling curve yet."
    return f"How this job scales was learnt on {table.unit.several(table.change.learnt)}."


def sentence(text: str) -> str:
    """Make a sentence of a text."""
    return f"{text[0].upper()}{text[1:]}."


def guessed_from(table: PredictionTable) -> str:
    """Say whose jobs a guess is made of."""
    if table.neighbours is None:
        return _GUESSED[table.level]
    jobs, users = table.neighbours
    own = f"{jobs} of your other jobs" if jobs > 1 else "one other job of yours"
    others = f"jobs of {users} other users"
    return " and ".join([own] * bool(jobs) + [others] * bool(users))


def reason_text(reason: Reason, unit: Unit = Unit.NODES) -> str:
    """Sentence of a reason, where sizes are counted in this unit."""
    return sentence(unit.words(reason.text))


def endings_text(case: Situation, advised_s: float = 0.0) -> str:
    """Say which limit lets no run of this job start, or ended some; empty: none did."""
    if beyond := beyond_partition_text(case):
        return beyond
    asked = case.request.low if case.request.low == case.request.high else None
    reached = limit_reached(case, asked, often=True, advised_s=advised_s)
    ended = reached.removeprefix("nimo: ")
    return sentence(ended) if ended else ""


def awaited_text(request: Request) -> str:
    """Say which jobs a job waits for, and when they end; empty: none."""
    if not request.awaited:
        return ""
    *others, last = map(str, request.awaited)
    jobs = f"jobs {', '.join(others)} and {last}" if others else f"job {last}"
    if not request.begin_known:
        return f"It starts after {jobs}; when that will be is not known."
    if request.last_begin_s > request.begin_s:
        first = ""
        if request.begin_s > -inf:
            first = f"the first until about {short_clock(request.begin_s)}, "
        last = f"the last until about {short_clock(request.last_begin_s)}"
        return f"Its tasks wait for {jobs}, {first}{last}."
    return f"It waits for {jobs}, until about {short_clock(request.begin_s)}."


def short_limit(one: Prediction, request: Request) -> str:
    """Say that the job's time limit is shorter than its run may take; empty: it is not."""
    own_s = request.asked_limit_s or request.limit_s or inf
    if request.deadline_s or own_s >= one.high_s:
        return ""
    takes = f"Such runs take {duration_range(one.low_s, one.high_s)}"
    return f"{takes}, and the time limit is {duration_text(own_s)}."


def beyond_partition_text(case: Situation) -> str:
    """Say that a job's time limit is above its partition's; empty: it is not, or not known.

    Slurm takes such a job and lets it wait for good, unless EnforcePartLimits is set or its QOS
    has the flag PartitionTimeLimit.
    """
    part, limit_s = case.partition, case.request.asked_limit_s or case.request.limit_s
    if part is None or not part.max_time_s or not limit_s or "," in part.name:
        return ""
    if limit_s <= part.max_time_s:
        return ""
    return (
        f"Its time limit is {duration_text(limit_s)}, and partition {printable(part.name)} allows "
        f"{duration_text(part.max_time_s)}: as it is, Slurm may never start it."
    )


def unused_gpus_text(request: Request, table: PredictionTable) -> str:
    """Say that runs used fewer GPUs than a job asks for; empty: they used them, or it is unknown.

    The accounting has the use of all GPUs of a run together: two that are half used count as one.
    """
    use = next((use for use in table.uses if use.unit is Unit.GPUS), None)
    asked = sizes.gpus_of(request.resources, request.asked or request.low)[1]
    if use is None or use.runs < _FEWEST_GPU_RUNS or asked < 2:
        return ""
    enough = max(ceil(use.high * asked), 1)
    if enough >= asked:
        return ""
    return (
        f"Its runs used {percent(use.high)} of their GPUs at most, and it asks for {asked}: "
        f"{Unit.GPUS.counted(enough)} may be enough."
    )


def short_of(
    case: Situation, option: Option | None, written: Change | None, advised_s: float = 0.0
) -> list[str]:
    """Lines for a user whose job asks for less time or memory than its runs took or needed.

    A limit that ended the last runs goes before what one of them took.

    option: the count that the job gets; None: unknown.
    written: what is written into it.
    advised_s: time limit in seconds that the job is advised otherwise; 0: none.
    """
    table = case.table
    if table is None:
        return []
    nodes = option.nodes if option else None
    reached = limit_reached(case, nodes, written, advised_s=advised_s)
    ended = table.limit_reached.state if table.limit_reached and reached else None
    time = memory = reached
    if ended != JobState.TIMEOUT:
        time = _time_below_runs(case, table, option, written)
    if ended != JobState.OUT_OF_MEMORY:
        beyond = _memory_beyond(case, table, option.nodes) if option else ""
        memory = f"nimo: its {beyond}" if beyond else ""
    return [line for line in (time, memory) if line]


def _time_below_runs(
    case: Situation, table: PredictionTable, option: Option | None, written: Change | None
) -> str:
    """Line about a limit that nine in ten runs exceed, by a reliable prediction; else empty."""
    if option is None or not _is_own_runs(case, table):
        return ""
    minutes = written.time_limit if written else None
    limit_s = 60.0 * minutes if minutes else case.request.asked_limit_s or inf
    predicted = option.prediction
    if verdict_at(table, option.nodes) is not Verdict.RELIABLE or limit_s >= predicted.low_s:
        return ""
    takes = duration_range(predicted.low_s, predicted.high_s)
    return f"nimo: such runs take {takes}, and the time limit is {duration_text(limit_s)}"


def memory_text(case: Situation, table: PredictionTable, nodes: int) -> str:
    """Sentence of a job that asks for less memory than its runs needed on a count; else empty."""
    beyond = _memory_beyond(case, table, nodes)
    return f"Its {beyond}." if beyond else ""


def _memory_beyond(case: Situation, table: PredictionTable, nodes: int) -> str:
    """Say that runs of this work needed more memory on a count than the job asks for; else empty.

    Where memory goes by the size of the problem, theirs says nothing of this job's.
    """
    asked = case.request.mem_node_bytes
    needs = [memory.mem_bytes for memory in table.memory if memory.nodes == nodes]
    by_size = table.need is not None and table.need.terms
    if not (asked and needs) or by_size or not _is_own_runs(case, table):
        return ""
    if not asked < max(needs) < UNBOUNDED:
        return ""
    most = ceil(max(needs) / _MIB)
    return f"runs needed up to {most}M on a node, and it asks for {asked // _MIB}M"


def _is_own_runs(case: Situation, table: PredictionTable) -> bool:
    return table.kind is JobKind.WORK and is_own_work(table, case.request.resources.user_name)


def script_text(request: Request, table: PredictionTable, size: int) -> str:
    """Say what the script fixes itself, and has to follow the options; empty: nothing."""
    nodes, job, script = request.unit is Unit.NODES, request.resources, request.script
    if words := sizes.unchanged_by_advice(script, job, table, size, nodes=nodes):
        where = "An input file" if words in script.input_text else "The script"
        return f"{where} says {words}: it does not follow the option, so change it, too."
    groups, option = script.task_multiple(), sizes.size_option_of(job, table)
    counted = job.ntasks_per_node if nodes else option is sizes.SizeOption.TASKS
    if groups == 1 or not counted:
        return ""
    return f"The job parts its tasks into groups: only multiples of {groups} tasks are shown."
