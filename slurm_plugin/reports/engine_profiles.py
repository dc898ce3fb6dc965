"""What processes of workflow engines need, by their own record, as the engines' profiles."""

import csv
import io
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
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
from slurm_plugin.config.yaml_text import load_yaml
from slurm_plugin.reports.input_memory import InputMemory, input_memory
from slurm_plugin.reports.input_time import InputTime, input_time
from slurm_plugin.slurm.cluster_state import RawState, lower_of
from slurm_plugin.text.formatting import clock, count

#: Completed runs that a need rests on, at least.
FEWEST = 5
#: Factor on the quantile of run times.
MARGIN = 1.2
SCHEMA = 2  #: of the JSON; raised where a field changes its meaning or goes
_MIB = 2**20
_NAME = re.compile(r"[A-Za-z_][\w.-]*", re.ASCII)


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
        least, room = self.quantile(share), enough_for(self.pairs, asked)
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


#: What is said in place of a time limit where the length of jobs is no property of the work.
_AS_GIVEN: Final = {
    JobKind.PILOT: "a pilot: no limit follows from its run time",
    JobKind.SESSION: "a session: no limit follows from its run time",
    JobKind.UNTIL_LIMIT: "runs until its limit, whatever that is",
}


def _spared_s(run: BacktestedRun) -> float:
    return max(run.own_s - run.limit_s, 0.0) if run.completed else 0.0


def _over(rows: Sequence[RunRow], times: _Amounts, memory: _Amounts, share: float) -> str:
    """Say what is beyond all that was seen; empty: nothing."""
    said = []
    if times.quantile(share) is None:
        cut_off = [one for one in map(evidence_of, rows) if one.run_time is Says.AT_LEAST]
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
    cpus, mem_mib = max(node.cpus for node in nodes), max(node.mem_mib for node in nodes)
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


def _lines(needs: Iterable[Need], engine: str) -> list[tuple[str, str, Need]]:
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


#: Attempts after the first one that a profile asks an engine for.
RETRIES = 3


def snakemake(needs: Iterable[Need]) -> str:
    """Make a profile with the resources of each rule, which grow with attempts.

    An expression of a profile has the number of the attempt, not what ended the last one: time and
    memory both grow.
    """
    made = [
        "# Further attempts get more time and more memory: no profile knows which of them ran out.",
        "# input.size_mb is the size of a job's input files.",
        f"retries: {RETRIES}",
        "set-resources:",
    ]

    def at_most(most: float | None, unit: int, value: str) -> str:
        return f"min({most // unit:.0f}, {value})" if most else value

    for rule, said, need in _lines(needs, "snakemake"):
        made += [f"  # {said}", f"  {rule}:"]
        if need.time_s is not None:
            if need.time_by_input is not None:
                made.append(f"    # by input: long enough for {_judged(need.time_by_input)}")
            value = f"{_snakemake_minutes(need, need.time_s)} * attempt"
            made.append(f"    runtime: {at_most(need.most_s, 60, value)}")
        if need.by_input is not None:
            made.append(f"    # by input: enough for {_judged(need.by_input)}")
        if need.mem_bytes is not None:
            value = _snakemake_memory(need, need.mem_bytes)
            made.append(f"    mem_mb: {at_most(need.most_mem_bytes, _MIB, value)}")
        made.append(f"    cpus_per_task: {need.cpus_per_task}")
        made += [f"    tasks: {need.tasks}"] if need.tasks > 1 else []
        made += [f"    nodes: {need.nodes}"] if need.nodes > 1 else []
    return "\n".join(made) + "\n"


def _judged(need: InputMemory | InputTime) -> str:
    return f"{need.inside} of {count(need.predictions, 'run')}, each by those before it"


def _snakemake_minutes(need: Need, time_s: float) -> str:
    """Write the time limit of a first attempt in minutes."""
    time = need.time_by_input
    if time is None:
        return f"{ceil(time_s / 60)}"
    grown = f"{time.fixed_s / 60:.3g} + {time.grown_s / 60:.3g} * input.size_mb"
    return f"(int(max({time.least_s / 60:.3g}, {grown})) + 1)"


def _snakemake_memory(need: Need, mem_bytes: float) -> str:
    """Write the memory of each attempt in MiB."""
    if memory := need.by_input:
        least, fixed = (ceil(one / _MIB) for one in (memory.least_bytes, memory.fixed_bytes))
        size = "input.size_mb" if memory.power == 1 else f"input.size_mb ** {memory.power:g}"
        grown = f"{fixed} + {memory.grown_bytes / _MIB:.3g} * {size}"
        return f"int(max({least}, {grown})) * 2 ** (attempt - 1)"
    first, enough = (ceil(one / _MIB) for one in (_first(need), mem_bytes))
    if enough > 2 * first:
        return f"{first} if attempt == 1 else {enough} * 2 ** (attempt - 2)"
    return f"{first} * 2 ** (attempt - 1)"


def _first(need: Need) -> int:
    """Memory of the first attempt, bytes."""
    return need.first_mem_bytes or need.mem_bytes or 0


#: Exit statuses after which nf-core's pipelines try again, too.
_AGAIN = "task.exitStatus in ((130..145) + 104)"


def nextflow(needs: Iterable[Need]) -> str:
    """Make a configuration with the resources of each process.

    Job names have underscores in place of the colons of a process's full name.  Nextflow's jobs
    exit with 140 at their time limit (USR2, which it asks Slurm for), and with 137 when killed for
    their memory: the other one stays.
    """
    made = [
        "// For Nextflow 24.10 and later.  resourceLimits: what the partition of the runs allows.",
        "process {",
    ]

    def grows(what: str, first: str, ended_other: int, least: str = "") -> str:
        factor = f"(task.previousTrace.exit == {ended_other} ? 1 : 2)"
        again = f"task.previousTrace.{what} * {factor}"
        if least:  # what the second attempt gets at least, where this ran out
            more = f"[{least}, task.previousTrace.{what} * 2].max()"
            same = f"task.previousTrace.exit == {ended_other}"
            again = f"({same} ? task.previousTrace.{what} : {more})"
        return f"        {what} = {{ task.attempt > 1 ? {again} : {first} }}"

    for process, said, need in _lines(needs, "nextflow"):
        selector = process.replace(".", "[.]").replace("_", "[:_]")
        made += [f"    // {said}", f"    withName: '{selector}' {{"]
        if need.time_s is not None:
            made.append(grows("time", f"{ceil(need.time_s / 60)}.min", 137))
        if need.mem_bytes is not None:
            first, enough = (ceil(one / _MIB) for one in (_first(need), need.mem_bytes))
            least = f"{enough}.MB" if enough > 2 * first else ""
            made.append(grows("memory", f"{first}.MB", 140, least))
        made.append(f"        errorStrategy = {{ {_AGAIN} ? 'retry' : 'finish' }}")
        made.append(f"        maxRetries = {RETRIES}")
        made.append(f"        cpus = {need.cpus_per_task * need.tasks}")
        most = {
            "time": need.most_s and f"{need.most_s // 60:.0f}.min",
            "memory": need.most_mem_bytes and f"{need.most_mem_bytes // _MIB}.MB",
            "cpus": need.most_cpus,
        }
        bounds = ", ".join(f"{name}: {value}" for name, value in most.items() if value)
        made += [f"        resourceLimits = [{bounds}]"] if bounds else []
        made.append("    }")
    return "\n".join([*made, "}"]) + "\n"


#: What has several values, and no column of a table.
_BY_INPUT: Final = frozenset({"by_input", "time_by_input"})


def as_csv(needs: Iterable[Need]) -> str:
    """Make a table with one row an application."""
    text = io.StringIO()
    columns = [name for name in Need.__slots__ if name not in _BY_INPUT]
    writer = csv.DictWriter(text, columns, lineterminator="\n", extrasaction="ignore")
    writer.writeheader()
    writer.writerows(map(asdict, needs))
    return text.getvalue()


def as_json(needs: Iterable[Need]) -> str:
    """Make JSON with the number of its schema."""
    made: Mapping[str, object] = {"schema": SCHEMA, "applications": [asdict(n) for n in needs]}
    return json.dumps(made, indent=2) + "\n"


#: What is exported, by its name on the command line.
FORMATS = {"snakemake": snakemake, "nextflow": nextflow, "csv": as_csv, "json": as_json}


# Values of a present profile are read as people write them, and never evaluated: ``4 * attempt``,
# ``{ 6.GB * task.attempt }``, ``'1d 2h'``.  Of other expressions nothing is known.

#: Run time in seconds and memory in bytes at the first attempt; None: nothing that can be read.
Asked = tuple[float | None, float | None]
#: An amount, bare, quoted or in a closure, with what it grows by after the first attempt.
_FIRST = re.compile(
    r"\{?\s*(?:min\(\d+, *|check_max\( *|attempt *\*|task\.attempt > 1 \? [^:]* : [^:]* : )?"
    r"\s*['\"]?(?P<first>\d[\w. ]*?)['\"]?\s*"
    r"(?:\*\s*\(?(?:task\.)?attempt\b.*|\*\s*2 \*\* \(attempt .*|if attempt == 1 else .*"
    r"|, *'\w+' *\))?\s*\}?",
    re.ASCII,
)
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)[ .]*([a-z]?)[a-z]*", re.ASCII)
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_BYTES = {letter: 1024.0**power for power, letter in enumerate("bkmgt")}
_SCOPE = re.compile(
    r"\bwith(Name|Label)\s*:\s*(['\"]?)([^\s'\"{]+)\2\s*\{((?:[^{}]|\{[^{}]*\})*)\}"
)
_SETTING = re.compile(r"(?:^|[{;\s.])(time|memory)\s*=\s*(\{[^}]*\}|[^;\n{}]+)")


def compared(
    engine: str, text: str, name: str, tried: Iterable[tuple[Need, list[BacktestedRun]]]
) -> list[str]:
    """Say what runs of each process would have had by a profile, and by the new one.

    text, name: of the profile.
    tried: what is needed, and runs with what those before them say.
    Raises ConfigError: the profile cannot be read.
    """
    read = {"snakemake": _of_snakemake, "nextflow": _of_nextflow}[engine]
    lines = []
    for need, runs in tried:
        if not (process := process_of(need, engine)):
            continue
        limit_s, mem_bytes = read(text, name, process)
        if not runs or limit_s is mem_bytes is None:
            why = "nothing in the file that can be read" if runs else "no further run to try it on"
            lines.append(f"{process}: {why}")
            continue
        short = sum(one.is_short(limit_s or inf, mem_bytes or 0.0) for one in runs)
        line = f"{process}: of {count(len(runs), 'run')} {need.short} would fail instead of {short}"
        if need.over:
            line += f"; {need.over}"
        if limit_s and all(one.limit_s < inf for one in runs):
            new_s = sum(one.limit_s for one in runs)
            less_s = len(runs) * limit_s - new_s
            line += (
                f"; limits {duration_text(new_s / len(runs))} instead of {duration_text(limit_s)}"
            )
            line += f", in all {duration_text(abs(less_s))} {'less' if less_s >= 0 else 'more'}"
        if mem_bytes and all(one.mem_bytes for one in runs):
            new = sum(one.first_bytes for one in runs) / len(runs)
            line += f"; memory {new / _MIB:.0f}M instead of {mem_bytes / _MIB:.0f}M"
        lines.append(line)
    return lines


def _amount(value: object, units: Mapping[str, float], bare: str = "") -> float | None:
    found = _FIRST.fullmatch(str(value).strip())
    parts = _AMOUNT.findall(found["first"].lower()) if found else []
    factors = [units.get(letter or bare, inf) for _, letter in parts]
    total = sum(float(number) * factor for (number, _), factor in zip(parts, factors, strict=True))
    return total if 0 < total < inf else None


def _of_snakemake(text: str, name: str, rule: str) -> Asked:
    read = load_yaml(text, name=name)
    given: dict[str, object] = {}
    for key, begin in (("default-resources", ""), ("set-resources", f"{rule}:")):
        one = read.get(key) if isinstance(read, dict) else None
        if isinstance(one, dict):
            given |= (one.get(rule) or {}) if begin else one
        elif isinstance(one, list):  # of RULE:NAME=VALUE
            words = [str(word).removeprefix(begin) for word in one if str(word).startswith(begin)]
            given |= {word.partition("=")[0]: word.partition("=")[2] for word in words}
    memory = next((given[key] for key in ("mem_mb", "mem_mib", "mem") if key in given), None)
    return _amount(given.get("runtime"), _SECONDS, "m"), _amount(memory, _BYTES, "m")


def _of_nextflow(text: str, _name: str, process: str) -> Asked:
    text = re.sub(r"/\*.*?\*/|(?<!:)//[^\n]*", "", text, flags=re.DOTALL)
    bodies = [_SCOPE.sub("", text)]
    for kind, _, selector, body in _SCOPE.findall(text):
        # A process may be named without its workflow; job names have underscores for colons.
        ways = rf"(?:.*_)?(?:{selector.replace(':', '_')})"
        with suppress(re.error):  # it is Java's
            bodies += [body] if kind == "Name" and re.fullmatch(ways, process) else []
    given = {name: value for body in bodies for name, value in _SETTING.findall(body)}
    return _amount(given.get("time"), _SECONDS), _amount(given.get("memory"), _BYTES)
