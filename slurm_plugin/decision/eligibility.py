"""What a job asks for, which node counts it may get, or why it keeps the count that it has."""

import re
from collections.abc import Mapping
from math import gcd, inf, lcm

import msgspec
from msgspec.structs import replace

from predictor.prediction_table import PredictionTable
from sacct_ingest.runs.layout import Unit
from sacct_ingest.runs.sharing import SharedTag
from sacct_ingest.runs.submission import JobKind
from sacct_ingest.text.tag import Tag
from sacct_ingest.text.time_spec import parse_time
from slurm_plugin.config import setting_types as types
from slurm_plugin.config.settings import JobNames, JobSettings, OptIn
from slurm_plugin.decision import sizes
from slurm_plugin.decision.request import Request
from slurm_plugin.decision.submitted_job import SubmittedJob, submitted
from slurm_plugin.decision.time_limits import MINUTE_S
from slurm_plugin.protocol.reasons import Reason
from slurm_plugin.protocol.request_messages import HookLevel, Job
from slurm_plugin.slurm.job_request import LEFT_ALONE

_EXPAND = re.compile(r"(?:^|[,?])expand:", re.IGNORECASE)
_MOST_DIGITS = 9  #: of a node count
_LEFT_ALONE = tuple((field, Reason[name]) for _, field, _, name in LEFT_ALONE)
UNBOUNDED = 2**31  #: most nodes of a request that names no most


#: From 24.11 on ``-c 2`` says this too.
_CPUS_PER_TASK = re.compile(r"^cpu[:=]\d+$")
#: Other counts that a user completed a script on, from which on its count may be another.
_PROOFS = 2
#: Requests whose jobs are not what the prediction is about, or that are to be left alone.
_UNTIMED = frozenset({Reason.OPTED_OUT, Reason.HET})


class CountRange(msgspec.Struct, frozen=True):
    """Sizes that a job may get, in one unit; ``fixed`` says why it must not be changed."""

    low: int
    high: int
    fixed: Reason | None = None
    unit: Unit = Unit.NODES
    step: int = 1  #: all are multiples of it
    given: tuple[int, int] = (0, 0)  #: fewest and most that its user gave; 0: none
    nearest: int | None = None  #: to what its user gave, where that is one; None: Slurm's choice


def sizes_for(one: SubmittedJob, opt_in: OptIn, table: PredictionTable | None) -> CountRange:
    """Sizes of a job as its user and the site want it, in the unit of its table.

    opt_in: which jobs the site offers other sizes.
    """
    # Runs that were counted in GPUs are no runs of a job without: it is counted in nodes.
    if table is not None and table.unit is not Unit.NODES and one.sizes.count(table.unit):
        return _in_cores(one, opt_in, table)
    job = one.job
    if job.het_job_offset == 0:
        nodes = _nodes_of_components(one, table)
        opted_out = one.tag is not None and one.tag.off
        return CountRange(nodes, nodes, Reason.OPTED_OUT if opted_out else Reason.HET)
    given = job.min_nodes or 0, job.max_nodes or 0
    return replace(span_of(one, opt_in), step=_segment_of(one), given=given)


def _nodes_of_components(one: SubmittedJob, table: PredictionTable | None) -> int:
    """Nodes of a heterogeneous job; where they are not all known, what its runs had."""
    if one.sizes.nodes and one.job.components:
        return one.sizes.nodes
    fewest = sum(part.min_nodes or 1 for part in (one.job, *one.job.components))
    ran = table.nodes if table else ()
    return min((nodes for nodes in ran if nodes >= fewest), default=fewest)


def span_of(one: SubmittedJob, opt_in: OptIn) -> CountRange:
    """Node counts of a job as its user and the site want it."""
    job = one.job
    tag = one.tag
    span = _asked(one, opt_in)
    opted_out = Reason.OPTED_OUT if tag and tag.off else None
    fixed = opted_out or _placed(one) or span.fixed or fixed_layout(job)
    # On other counts than its script names, torchrun's processes would wait for ever.
    if fixed is None and "torchrun" in job.script and "nodes" in one.script.fixed_sizes():
        fixed = Reason.FIXED_BY_SCRIPT
    return CountRange(span.low, span.high, fixed)


def _in_cores(one: SubmittedJob, opt_in: OptIn, table: PredictionTable) -> CountRange:
    """Numbers of CPUs or GPUs that a job may get; only its own where nobody offers others."""
    job = one.job
    tag = one.tag
    own = one.sizes.count(table.unit)
    option = sizes.size_option_of(job, table)
    ends = _ends(tag, opt_in, one.names, option.value)
    step = sizes.step_of(job, option)
    offered = ends and (ends[0] * step, ends[1] * step)
    fixed = (Reason.OPTED_OUT if tag and tag.off else None) or _placed(one)
    if fixed is None and not job.script and job.hook < HookLevel.COMMANDS:
        fixed = Reason.INTERACTIVE
    if fixed is None and offered and job.hook < HookLevel.SIZES:
        fixed = Reason.OLD_HOOK
    if fixed is None and offered and sizes.ranks_of_gpus(job, table):
        fixed = Reason.FIXED_TASKS
    if fixed is None and offered and sizes.fixed_by_script(one.script, job, table):
        fixed = Reason.FIXED_BY_SCRIPT
    if fixed is None and not offered:
        fixed = Reason.FIXED_CPUS
    low, high = offered or (own, own)
    step *= one.script.task_multiple() if option is sizes.SizeOption.TASKS else 1
    nearest = min(max(own, low), high)
    nearest = nearest if nearest == own else max(nearest - nearest % step, low)
    return CountRange(low, high, fixed, table.unit, step, (own, own), nearest)


def _asked(one: SubmittedJob, opt_in: OptIn) -> CountRange:
    job = one.job
    tag = one.tag
    ends = _ends(tag, opt_in, one.names, "nodes")
    offered = CountRange(*ends) if ends else None
    if job.min_nodes is None and job.max_nodes is None:
        return offered or CountRange(1, 1, fixed_layout(job) or Reason.NOT_OPTED_IN)
    if job.min_nodes == 0 and not job.max_nodes:
        # It runs on no node at all, and only stages its burst buffer.
        return CountRange(1, 1, Reason.FIXED_COUNT)
    low = job.min_nodes or 1
    high = job.max_nodes or UNBOUNDED
    if low == high:
        return CountRange(low, high, Reason.FIXED_COUNT)
    tagged = tag is not None and (tag.on or bool(tag.app)) and opt_in.tag
    chosen = opt_in.node_range or tagged or offered is not None
    return CountRange(low, high, None if chosen else Reason.NOT_OPTED_IN)


def _ends(tag: Tag | None, opt_in: OptIn, names: JobNames, size: str) -> tuple[int, int] | None:
    """Fewest and most nodes, cpus, tasks or gpus: of the comment, or else of the site's rules."""
    own: tuple[int, int] | None = getattr(tag, size) if opt_in.tag and tag else None
    if own or (tag and tag.off):
        return own
    for rule in opt_in.rules:
        if (ends := rule.range(size)) and rule.holds(names):
            return ends
    return None


def _placed(one: SubmittedJob) -> Reason | None:
    """Which other option of the job leaves no choice of nodes: a node list, an array, ..."""
    job = one.job
    bound = (
        (job.het_job_offset is not None, Reason.HET),
        *((bool(getattr(job, field)), reason) for field, reason in _LEFT_ALONE),
        (_lists_sizes(one), Reason.NODE_SIZES),
        (bool(_EXPAND.search(job.dependency)), Reason.DEPENDENCY),
    )
    return next((reason for holds, reason in bound if holds), None)


def _lists_sizes(one: SubmittedJob) -> bool:
    """Tell whether the job names several counts, of which slurmctld shows the hook the ends."""
    job = one.job
    if job.node_sizes or job.min_nodes == job.max_nodes:
        return job.node_sizes
    # What the command line says goes before the script.
    fewest = _fewest(one.script.option("nodes"))
    return fewest is not None and fewest == job.min_nodes


def _fewest(listed: str) -> int | None:
    """Smallest count of ``2,4,8`` or ``2-8:2`` (Slurm 23.02 and later); None for other texts."""
    if "," not in listed and ":" not in listed:
        return None
    counts = [part.partition(":")[0] for part in listed.replace("-", ",").split(",")]
    if not all(count.isdecimal() and len(count) <= _MOST_DIGITS for count in counts):
        return None
    return min(map(int, counts))


def fixed_layout(job: Job) -> Reason | None:
    """Why the layout of a job ties it to a node count; None where it does not."""
    devices = _CPUS_PER_TASK.sub("", job.tres_per_task)
    if job.tres_per_job or job.tres_per_socket or devices or job.max_cpus:
        return Reason.FIXED_CPUS
    free = not job.ntasks_per_socket and (job.num_tasks is None or _derived(job))
    return None if free else Reason.FIXED_TASKS


def _derived(job: Job) -> bool:
    """Whether sbatch computed the number of tasks itself, from tasks per node and nodes.

    Only for batch jobs: salloc and srun keep the number for their steps, and more nodes than
    tasks stop slurmctld 22.05 with a division by zero.
    """
    if not job.script or not job.ntasks_per_node or job.min_nodes != job.max_nodes:
        return False
    tasks = (job.min_nodes or 1) * job.ntasks_per_node
    return job.num_tasks == tasks and job.min_cpus == tasks * (job.cpus_per_task or 1)


def _segment_of(one: SubmittedJob) -> int:
    """Node counts are multiples of this: ``--segment``, and groups of tasks on all nodes."""
    job = one.job
    script = one.script
    segment = job.segment_size or 1
    text = script.option("segment")  # job_submit sees it from 25.11 on
    segment = lcm(segment, int(text)) if text.isdecimal() and len(text) < 5 else segment
    if not job.ntasks_per_node:
        return segment
    groups = script.task_multiple()
    return lcm(segment, groups // gcd(groups, job.ntasks_per_node))


def proven_counts(table: PredictionTable, own: int) -> tuple[int, ...]:
    """List the counts that a job of ``own`` nodes may get: what its user completed it on.

    None where that is too little.
    """
    counts = {*(table.change.proven if table.change else ())}
    return tuple(sorted({*counts, own})) if len(counts - {own}) >= _PROOFS else ()


def resolve(  # noqa: PLR0913 - each by its name
    one: SubmittedJob,
    table: PredictionTable | None,
    *,
    settings: JobSettings,
    opt_in: OptIn,
    now_s: float,
    distrusted: Reason | None = None,
    with_least: bool = False,
    plans_softly: bool = False,
    lengthen: bool = True,
    reopens: bool = False,
) -> Request:
    """Count the request of a job in the unit of its table, with deadline and limit in seconds.

    settings: what the site wants for such jobs.
    opt_in: which jobs the site offers other sizes.
    now_s: time that relative deadlines count from, seconds since the epoch.
    distrusted: why the prediction is only observed.
    with_least: whether a least time limit may be set beside the own one.
    plans_softly: whether Slurm plans with a least time limit, and ends no job for it.
    lengthen: whether the site lets limits become longer.
    reopens: whether nimod may give a job its range back.
    """
    job = one.job
    tag = one.tag
    counts = sizes_for(one, opt_in, table)
    sized = counts.unit is not Unit.NODES
    fixed = counts.fixed
    deadline_s = None
    try:
        deadline_s = deadline_of(one.deadline, now_s)
    except ValueError:
        fixed = fixed or Reason.DEADLINE_UNREADABLE
    least_s = 60.0 * job.time_min if job.time_min else None
    soft = plans_softly and settings.soft is types.SoftUse.ON and _plans(job, tag)
    site_use = settings.time_limit
    if soft and site_use is types.TimeUse.SET:
        site_use = types.TimeUse.ADVISE  # nobody's limit has to be shortened
    memory = tag.mem if tag else ""
    use = settings.memory
    lowers = (use is types.MemoryUse.AUTO and memory != types.MemoryUse.OFF) or (
        use is types.MemoryUse.TAG and memory == types.MemoryUse.AUTO
    )
    return Request(
        low=counts.low,
        high=counts.high,
        unit=counts.unit,
        asked=counts.nearest,
        segment=counts.step,
        limit_s=least_s or one.limit_s,  # backfill may shorten a job down to time_min
        asked_limit_s=one.limit_s,
        least_s=least_s,
        limit_raisable=job.time_min is None and job.time_limit is not None and lengthen,
        with_least=with_least,
        deadline=one.deadline,
        deadline_s=deadline_s,
        deadline_limit_s=_deadline_limit_of(one),
        begin_s=job.begin_time if job.begin_time else -inf,
        mem_node_bytes=None if sized else one.mem_node_bytes,
        lower_memory=fixed not in _UNTIMED and lowers,
        orders_places=fixed not in _UNTIMED and _orders(job, tag, settings),
        fixed=fixed,
        distrusted=distrusted,
        time_use=_time_use(job, tag, fixed, site_use, sized=sized),
        soft=soft,
        reopens=reopens and not sized and deadline_s is None and sizes.only_nodes(job),
        given=counts.given,
        objective=next(
            (aim for aim in types.Objective if tag and aim.value == tag.objective),
            settings.objective,
        ),
        explore=_explores(counts, tag, settings),
        proven=() if sized or fixed is not Reason.FIXED_COUNT else _proven(one, table, settings),
        **submitted(job),
    )


def _proven(
    one: SubmittedJob, table: PredictionTable | None, settings: JobSettings
) -> tuple[int, ...]:
    """Find counts that a job of one count may get: its user completed the script on them."""
    job = one.job
    if settings.proven is types.Proven.OFF or not table or not job.script or not job.min_nodes:
        return ()
    counts = proven_counts(table, job.min_nodes)
    tied = not counts or fixed_layout(job) or {"nodes", "tasks"} & {*one.script.fixed_sizes()}
    return () if tied else counts


def deadline_of(text: str, now_s: float) -> float | None:
    """Moment that the words of a deadline mean, seconds since the epoch; None: there are none.

    Raises ValueError: they cannot be read.
    """
    return parse_time(text, now_s=now_s) if text else None


def learns(one: SubmittedJob, opt_in: OptIn, settings: JobSettings) -> bool:
    """Whether a job may run on a count that was not tried: it has a range of counts."""
    tag = one.tag
    span = span_of(one, opt_in)
    offered = (_ends(tag, opt_in, one.names, option.value) for option in sizes.SizeOption)
    spans = (span, *(CountRange(*ends) for ends in offered if ends))
    return any(_explores(span, tag, settings) for span in spans)


def _explores(span: CountRange, tag: Tag | None, site: JobSettings) -> bool:
    word = tag.learn if tag else ""
    wanted = word == "on" or (site.explore is types.Explore.ON and word != "off")
    return (
        wanted and site.mode is types.Mode.ENFORCE and span.fixed is None and span.low < span.high
    )


def _deadline_limit_of(one: SubmittedJob) -> float:
    """Seconds that Slurm wants between a job's start and its deadline.

    Of several limits it takes the first: ``--time-min``, ``--time``, ``DefaultTime`` of the
    partition.  A job without any has what is left until the deadline, one minute at least.
    """
    own_s = 60.0 * (one.job.time_min or one.job.time_limit or 0)
    default_s = one.rules.default_time_s if one.rules else None
    return own_s or default_s or MINUTE_S


def distrust(
    table: PredictionTable | None,
    site: JobSettings,
    *,
    user: str,
    shared: Mapping[str, SharedTag],
    own_runs: int,
    off: bool,
) -> Reason | None:
    """Say why a prediction is only observed: not the user's own, of few runs, or often wrong.

    shared: what `slurm_plugin.decision.lookup.shared_by` gives for the job.
    own_runs: fewer finished runs change nothing.
    off: whether what came of it switched it off.
    """
    if site.trust is types.Trust.OFF:
        return Reason.DISTRUSTED
    if table is None:
        return None
    if table.kind is not JobKind.WORK:
        return Reason.NO_OWN_LENGTH
    decides = table.key in shared and shared[table.key].decide
    if not (decides or (user and table.owner == user)):
        return Reason.OTHERS_RUNS
    if table.runs < own_runs:
        return Reason.FEW_OWN_RUNS
    return Reason.OUT_OF_BAND if off and site.trust is types.Trust.AUTO else None


def _orders(job: Job, tag: Tag | None, settings: JobSettings) -> bool:
    """Whether the faster of a job's partitions or constraints may be tried first."""
    place = tag.place if tag else ""
    use = settings.place
    wanted = (use is types.PlaceUse.AUTO and place != types.PlaceUse.OFF) or (
        use is types.PlaceUse.TAG and place == types.PlaceUse.AUTO
    )
    several = "," in job.partition or ("|" in job.features and not job.prefer)
    return wanted and several and job.places and not (job.req_nodes or job.reservation)


def _plans(job: Job, tag: Tag | None) -> bool:
    """Whether Slurm may plan a job with less than its time limit."""
    left_alone = job.time_min or job.reservation or job.het_job_offset is not None
    off = tag is not None and (tag.off or tag.soft == types.SoftUse.OFF)
    return bool(job.script and job.time_limit) and not left_alone and not off


def _time_use(
    job: Job, tag: Tag | None, fixed: Reason | None, site: types.TimeUse, *, sized: bool = False
) -> types.TimeUse:
    """Say how the time limit is used; not at all where the job's size is unknown."""
    if job.components:
        return types.TimeUse.ADVISE  # its components stay as they are
    if fixed in _UNTIMED:
        return types.TimeUse.OFF
    counted = sized or job.min_nodes is not None or max(job.num_tasks or 1, job.min_cpus or 1) == 1
    if fixed is not None and not counted:
        return types.TimeUse.OFF
    return next((use for use in types.TimeUse if tag and use.value == tag.time), site)
