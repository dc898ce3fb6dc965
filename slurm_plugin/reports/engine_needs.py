"""What processes of workflow engines need, by their own record."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, inf
from pathlib import PurePosixPath as Path
from typing import Final

from predictor.product_limit import ProductLimit
from predictor.tables.kinds import kind_of_runs
from predictor.tables.memory_need import enough_for
from sacct_ingest.errors import NoHistory
from sacct_ingest.records import JobState, Says
from sacct_ingest.runs.evidence import evidence_of, node_memory
from sacct_ingest.runs.submission import JobKind
from sacct_ingest.store import RunRow
from sacct_ingest.text.durations import duration_range, duration_text
from slurm_plugin.reports.input_memory import InputMemory, input_memory
from slurm_plugin.reports.input_time import InputTime, input_time
from slurm_plugin.slurm.cluster_state import RawState, lower_of
from slurm_plugin.text.formatting import clock, count

#: Completed runs that a need rests on, at least.
FEWEST = 5
#: Factor on the quantile of run times.
MARGIN = 1.2
#: Attempts after the first one that a profile asks an engine for.
RETRIES = 3
_MIB = 2**20
_NAME = re.compile(r"[A-Za-z_][\w.-]*", re.ASCII)
#: What is said in place of a time limit where the length of jobs is no property of the work.
_AS_GIVEN: Final = {
    JobKind.PILOT: "a pilot: no limit follows from its run time",
    JobKind.SESSION: "a session: no limit follows from its run time",
    JobKind.UNTIL_LIMIT: "runs until its limit, whatever that is",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What one application needs; memory is that of a node, None where it was not measured.

    ``time_s`` and ``mem_bytes`` are at least what every completed run took.  Times and memory are
    None where so many runs were cut off that they are beyond all that was seen: ``over`` says so.
    """

    application: str
    runs: int  #: that completed
    low_s: float | None  #: 5 % of the runs ended earlier ...
    median_s: float | None
    high_s: float | None  #: ... and 5 % later
    time_s: float | None
    mem_bytes: int | None
    cpus_per_task: int
    tasks: int
    nodes: int
    last_s: float  #: when the newest run ended, seconds since the epoch
    predicted: int  #: runs whose need was predicted from earlier runs ...
    short: int  #: ... that took longer or more memory
    spared_s: float  #: what the time limits of those that completed were longer
    cut_off: int = 0  #: runs that did not complete: they took longer than they ran
    lacked_memory: int = 0  #: runs that ended for lack of memory
    over: str = ""  #: what is beyond all that was seen, in words; empty: nothing
    partition: str = ""  #: of the newest run
    most_s: float | None = None  #: that a job may ask for there; None: unknown, or no limit
    most_mem_bytes: int | None = None  #: on one node
    most_cpus: int | None = None
    #: memory of a first attempt that an engine follows up: the cheapest; None: as ``mem_bytes``
    first_mem_bytes: int | None = None
    retried: int = 0  #: predicted runs for which that was too little
    #: memory by the size of the input files; None: it does not surely go by that
    by_input: InputMemory | None = None
    #: time limit by the size of the input files, likewise
    time_by_input: InputTime | None = None


@dataclass(frozen=True, slots=True)
class BacktestedRun:
    """A run, and what it would have been given by the runs before it.

    What was cut off took as long, or needed as much, or more.
    """

    elapsed_s: float
    need_bytes: int  #: 0: not measured
    own_s: float  #: its time limit; 0: unknown
    limit_s: float  #: inf: nothing is said
    mem_bytes: float  #: 0: nothing is said
    completed: bool = True
    first_bytes: float = 0.0  #: memory of a first attempt that is followed up; 0: nothing is said

    def is_short(self, limit_s: float, mem_bytes: float) -> bool:
        """Whether it takes longer than a limit, or more memory; 0: unknown memory."""
        return self.elapsed_s > limit_s or 0 < mem_bytes < self.need_bytes

    def tells(self, limit_s: float, mem_bytes: float) -> bool:
        """Whether it says if a limit and a memory are enough."""
        return self.completed or self.is_short(limit_s, mem_bytes)


@dataclass(slots=True)
class _Amounts:
    """What runs took of time or of memory, and whether they were cut off; the newest last."""

    pairs: list[tuple[float, bool]] = field(default_factory=list)
    completed: int = 0

    def add(self, value: float, says: Says) -> None:
        if says is Says.NOTHING or value <= 0:
            return
        self.pairs.append((value, says is Says.AT_LEAST))
        self.completed += says is Says.WHOLE

    def quantile(self, share: float) -> float | None:
        """Smallest value that ``share`` of them do not exceed (Kaplan and Meier 1958)."""
        return ProductLimit.of(self.pairs).quantile(share)

    def covering(self, share: float, margin: float) -> float | None:
        """Value with a margin that covers this share, and all that completed; None: none does."""
        least = self.quantile(share)
        return None if least is None else max(least * margin, self._most())

    def first(self, enough: float | None, margin: float | None) -> float:
        """Value of the least expected cost where a run that is short runs again; 0: none is said.

        enough: what it gets then.
        margin: a factor that is asked for; it holds for the first attempt, too.
        """
        if enough is None or margin is not None:
            return enough or 0.0
        return min(enough_for(self.pairs, enough, retried=True) or enough, enough)

    def enough(self, share: float, asked: float) -> float | None:
        """Value with room by these runs that covers this share, and all that completed.

        asked: what a run that is short is given next.
        """
        least = self.quantile(share)
        room = enough_for(self.pairs, asked)
        return None if least is None or room is None else max(room, self._most())

    def _most(self) -> float:
        return max((value for value, cut_off in self.pairs if not cut_off), default=0.0)


def need_of(
    application: str, rows: Sequence[RunRow], *, quantile: float, margin: float | None = None
) -> tuple[Need, list[BacktestedRun]] | None:
    """Work out a need, and try it on the runs; None: fewer than `FEWEST` completed.

    rows: runs of one application, the newest last.
    quantile: share of the runs that a need covers, before the margin.
    margin: factor on that quantile; None: `MARGIN` for run times, and memory has the room that its
        runs say (`predictor.tables.memory_need`).
    """
    rows = [start for row in rows for start in row.each_start()]
    done = [row for row in rows if row.state is JobState.COMPLETED and row.nodes > 0]
    if len(done) < FEWEST:
        return None
    times, memory = _Amounts(), _Amounts()
    time_margin = MARGIN if margin is None else margin
    asked = 0.0

    def memory_for_next() -> float | None:
        if margin is None:
            return memory.enough(quantile, asked)
        return memory.covering(quantile, margin)

    backtest = []
    lacked = 0
    for row in rows:
        said = evidence_of(row)
        if said.run_time is Says.NOTHING and said.memory is Says.NOTHING:
            continue
        if times.completed >= FEWEST:
            enough = memory_for_next() if memory.completed else None
            run = BacktestedRun(
                elapsed_s=0.0 if said.run_time is Says.NOTHING else row.elapsed_s,
                need_bytes=said.mem_bytes + said.lacked_memory,
                own_s=float(row.limit_s or 0),
                limit_s=times.covering(quantile, time_margin) or inf,
                mem_bytes=enough or 0.0,
                completed=row.state is JobState.COMPLETED,
                first_bytes=memory.first(enough, margin),
            )
            if run.tells(run.limit_s, run.mem_bytes):
                backtest.append(run)
        times.add(float(row.elapsed_s), said.run_time)
        memory.add(float(said.mem_bytes), said.memory)
        lacked += said.lacked_memory
        asked = float(node_memory(row)) or asked
    mem_bytes = None
    if memory.completed >= FEWEST:
        mem_bytes = memory_for_next()
        if mem_bytes is None and not lacked:
            # Time cut them off: what they needed by then, and the margin, is not too little.
            mem_bytes = time_margin * max(value for value, _ in memory.pairs)
    cut_off = len(times.pairs) - times.completed
    halved = 2 * cut_off >= len(times.pairs)
    kind, _ = kind_of_runs(rows)
    as_given = kind is not JobKind.WORK
    need = Need(
        application=application,
        runs=len(done),
        low_s=times.quantile(0.05),
        median_s=None if halved else times.quantile(0.5),
        high_s=times.quantile(0.95),
        time_s=None if as_given else times.covering(quantile, time_margin),
        mem_bytes=None if mem_bytes is None else ceil(mem_bytes),
        first_mem_bytes=ceil(memory.first(mem_bytes, margin)) or None,
        retried=sum(0 < one.first_bytes < one.need_bytes for one in backtest),
        cpus_per_task=_usual([ceil((row.req_cpus or row.cpus) / (row.tasks or 1)) for row in done]),
        tasks=_usual([row.tasks or 1 for row in done]),
        nodes=_usual([row.nodes for row in done]),
        last_s=float(done[-1].end_s or 0),
        predicted=len(backtest),
        short=sum(one.is_short(one.limit_s, one.mem_bytes) for one in backtest),
        spared_s=sum(_spared_s(one) for one in backtest),
        cut_off=cut_off,
        lacked_memory=lacked,
        over=_AS_GIVEN[kind] if as_given else _over(rows, times, memory, quantile),
        partition=done[-1].partition,
        by_input=input_memory(rows, FEWEST) if margin is None and mem_bytes else None,
        time_by_input=None if as_given else _time_by_input(rows, quantile, time_margin),
    )
    return need, backtest


def _time_by_input(rows: Sequence[RunRow], share: float, margin: float) -> InputTime | None:
    def cover(values: Sequence[float]) -> float:
        whole = _Amounts([(value, False) for value in values])
        return whole.covering(share, margin) or inf

    return input_time(rows, FEWEST, cover)


def _spared_s(run: BacktestedRun) -> float:
    return max(run.own_s - run.limit_s, 0.0) if run.completed else 0.0


def _over(rows: Sequence[RunRow], times: _Amounts, memory: _Amounts, share: float) -> str:
    """Say what is beyond all that was seen; empty: nothing."""
    said = []
    cut_off = [one for one in map(evidence_of, rows) if one.run_time is Says.AT_LEAST]
    if cut_off and times.quantile(share) is None:
        limited = sum(row.state.out_of_time for row in rows)
        how = "reached their limit" if limited == len(cut_off) else "were cut off"
        longest_s = max(one.elapsed_s for one in cut_off)
        of = count(len(times.pairs), "run")
        said.append(f"run time: over {duration_text(longest_s)} ({len(cut_off)} of {of} {how})")
    short = [one for one in map(evidence_of, rows) if one.lacked_memory]
    if short and memory.completed >= FEWEST and memory.quantile(share) is None:
        most = max(one.mem_bytes for one in short)
        of = count(len(memory.pairs), "run")
        said.append(f"memory: over {ceil(most / _MIB)}M ({len(short)} of {of} ran out of it)")
    return "; ".join(said)


def bounded(need: Need, state: RawState) -> Need:
    """Add what a job may ask for in the partition of the newest run, and ask for no more."""
    part = next((one for one in state.partitions if one.name == need.partition), None)
    nodes = [node for node in state.nodes if need.partition in node.partitions]
    if part is None or not nodes:
        return need
    cpus = max(node.cpus for node in nodes)
    mem_mib = max(node.mem_mib for node in nodes)
    # Slurm has 1 MiB where a site tells it nothing.
    most_mib = lower_of(part.max_mem_node_mib, mem_mib if mem_mib > 1 else None)
    most_mem = most_mib * _MIB if most_mib else None
    return replace(
        need,
        time_s=need.time_s and (lower_of(need.time_s, part.max_time_s) or need.time_s),
        mem_bytes=need.mem_bytes and lower_of(need.mem_bytes, most_mem),
        first_mem_bytes=need.first_mem_bytes and lower_of(need.first_mem_bytes, most_mem),
        most_s=part.max_time_s,
        most_mem_bytes=most_mem,
        most_cpus=lower_of(part.max_cpus_node, cpus),
    )


def _usual(counts: Sequence[int]) -> int:
    """Give the largest of the last runs: a count that users lowered long ago is needed no more."""
    return max(*counts[-FEWEST:], 1)


def of_workflow(rows: Iterable[RunRow], name: str) -> list[RunRow]:
    """Choose the runs of a workflow, by the name of its file or folder, or of the working one.

    The whole name counts, with or without a file's extension, or several parts of the path.
    """
    asked = Path(name).parts

    def named(text: str) -> bool:
        path = Path(text)
        ways = (path.parts, path.with_suffix("").parts) if path.name else (path.parts,)
        ends = range(len(asked), len(path.parts) + 1)
        return any(parts[end - len(asked) : end] == asked for parts in ways for end in ends)

    return [row for row in rows if named(row.work_dir) or named(row.submission.said.workflow)]


def process_of(need: Need, engine: str) -> str:
    """Name the process or rule of an engine; empty: it is none that a profile could name."""
    name, _, process = need.application.partition("/")[2].partition(":")
    return process if name == engine and _NAME.fullmatch(process) else ""


def lines_of(needs: Iterable[Need], engine: str) -> list[tuple[str, str, Need]]:
    """Give process, a comment and need of each application of an engine."""
    chosen = [(process, one) for one in needs if (process := process_of(one, engine))]
    if not chosen:
        raise NoHistory(f"no process of {engine} has enough runs; csv and json have all tags")
    return [(process, _comment(one), one) for process, one in chosen]


def _comment(need: Need) -> str:
    """Say what a need rests on."""
    times = need.over
    if need.low_s is not None and need.median_s is not None and need.high_s is not None:
        ends = duration_range(need.low_s, need.high_s)
        times = "; ".join(filter(None, (f"{duration_text(need.median_s)} ({ends})", need.over)))
    elif not times:
        times = "no median run time"
    again = f", {need.retried} with a second attempt for memory" if need.retried else ""
    runs = count(need.runs, "run")
    if need.cut_off or need.lacked_memory:
        runs = f"{runs} completed, {need.cut_off + need.lacked_memory} did not"
    return (
        f"{runs}, {times}, to {clock(need.last_s)[:10]}; backtest: "
        f"{need.short} of {count(need.predicted, 'run')} short, limits "
        f"{duration_text(need.spared_s)} less{again}"
    )


def first_memory(need: Need) -> int:
    """Memory of the first attempt, bytes."""
    return need.first_mem_bytes or need.mem_bytes or 0
