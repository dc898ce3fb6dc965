"""Facts of an identity's runs: run times, memory, owner, how they ended, and where they worked.

Of a change of count they say what their users asked for, and what they had.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from math import exp, inf, log
from operator import attrgetter
from statistics import fmean

from predictor.application.count_changes import log_ratios
from predictor.application.model import Application, Paths
from predictor.change import AskedRange, Change
from predictor.facts import Ending, Failures, LimitReached, Longest
from predictor.memory import UNBOUNDED, Memory
from predictor.prediction_table import PredictionTable
from predictor.problems import Problem, problem
from predictor.sample import Sample
from predictor.submission import digest_of_folder
from predictor.tables.samples import Range, asked_of, ended_runs, sample_of
from sacct_ingest.records import JobState, KeyLevel
from sacct_ingest.runs.evidence import evidence_of, node_need
from sacct_ingest.runs.layout import Unit
from sacct_ingest.store.rows import RunRow

#: The latest runs that count.
RECENT = 20
#: Those among which a limit is looked for; it ended so many of them, and such a share, at least.
_MANY, _OFTEN, _SHARE = 60, 3, 0.1
#: Last runs whose time limits say what such jobs ask for.
_LIMITS = 10
#: Last runs that had one script, so that another one is an edit.
_SCRIPTS = 3
#: Runs for each working directory, at least: otherwise every run has its own, and a new one says
#: nothing.
RUNS_PER_DIRECTORY = 3
_WORDS = {
    JobState.TIMEOUT: "reached their time limit",
    JobState.DEADLINE: "were ended by their deadline",
    JobState.OUT_OF_MEMORY: "ran out of memory",
    JobState.FAILED: "failed",
}
#: Completed runs after which a run that its limit stopped sets no limit any more: it may have hung.
_SINCE_CUT = 10
#: Reason of a decision that changed a count to learn.
LEARNED = "learning"
_DAY_S = 86_400
#: Units of decisions that are about no node count.
_SIZES = (Unit.CPUS.value, Unit.GPUS.value)
#: How likely it is, before run times are looked at, that runs of one application had one problem:
#: where script, arguments, folder or measured memory show it, of a script without arguments, where
#: they share a name alone, and where their measured memory differs, too.
_VISIBLE, _BARE, _NAMED, _GROWN = 0.95, 0.7, 0.5, 0.2
#: Measured memory of one problem stays within this ratio, whatever the count.
_SAME_MEMORY = 1.4


def endings_of(rows: Sequence[RunRow]) -> tuple[Ending, ...]:
    """Count how the latest runs ended, most frequent first.

    Runs that the cluster or a person ended say nothing.

    rows: runs of one identity, the newest last.
    """
    latest = _latest(rows)
    states = dict.fromkeys(row.state for row in latest)
    groups = {state: [row for row in latest if row.state is state] for state in states}
    endings = [
        Ending(
            state=state.value,
            runs=len(group),
            longest_s=float(max(row.elapsed_s for row in group)),
            exit_code=_usual_code(group),
        )
        for state, group in groups.items()
    ]
    return tuple(sorted(endings, key=lambda one: (-one.runs, one.state)))


def _usual_code(rows: Sequence[RunRow]) -> int | None:
    """Exit code of most of these runs; None: not known."""
    codes = Counter(row.exit_code for row in rows if row.exit_code is not None)
    return codes.most_common(1)[0][0] if codes else None


def failures_of(rows: Sequence[RunRow]) -> Failures | None:
    """Say how often the latest runs failed; None: none did.

    rows: runs of one identity, the newest last.
    """
    latest = _latest(rows)
    failed = [row for row in latest if row.state is JobState.FAILED]
    if not failed:
        return None
    in_a_row = next(
        (n for n, row in enumerate(reversed(latest)) if row.state is not JobState.FAILED),
        len(latest),
    )
    last = failed[-1]
    options = last.submission.options
    return Failures(
        runs=in_a_row,
        often=len(failed),
        of=len(latest),
        low_s=float(min(row.elapsed_s for row in failed)),
        high_s=float(max(row.elapsed_s for row in failed)),
        exit_code=_usual_code(failed),
        job_id=last.job_id,
        array_job_id=last.array_job_id,
        array_task_id=last.array_task_id,
        name=last.name,
        output=options.get("error") or options.get("output") or "",
    )


def failed_steps_problem(rows: Iterable[RunRow]) -> Problem | None:
    """Report that steps of completed runs failed, often enough to doubt what these took.

    rows: runs of one identity, the newest last.
    """
    completed = [row for row in rows if row.state.finished][-RECENT:]
    failed = sum(evidence_of(row).doubtful for row in completed)
    if failed < 2 or failed < len(completed) * _SHARE:
        return None
    return problem("failed_steps", failed=failed, runs=len(completed))


def limit_reached(rows: Sequence[RunRow]) -> LimitReached | None:
    """Give the limit that ended the latest two runs, or a tenth of those that had it; else None.

    rows: runs of one identity, the newest last.
    """
    latest = _latest(rows, _MANY)
    ends = [(row.state, _limit(row, row.state)) for row in latest]
    last = next((one for one in reversed(ends) if one[1]), None)
    if last is None or not last[1]:
        return None
    runs = next((n for n, one in enumerate(reversed(ends)) if one != last), len(ends))
    often = ends.count(last)
    of = sum(_limit(row, last[0]) == last[1] for row in latest)
    if runs < 2 and (often < _OFTEN or often < of * _SHARE):
        return None
    return LimitReached(last[0].value, runs, last[1], often, of)


def _latest(rows: Sequence[RunRow], count: int = RECENT) -> list[RunRow]:
    return [row for row in rows if row.state.ended and not row.state.interrupted][-count:]


def _limit(row: RunRow, state: JobState) -> float | None:
    """Limit of a run that ends in this state; None: there is none, or it is unknown."""
    if state is JobState.TIMEOUT:
        return float(row.limit_s) if row.limit_s else None
    if state is JobState.OUT_OF_MEMORY and row.nodes:
        return row.req_mem_bytes / row.nodes if row.req_mem_bytes else None
    return None


def limit_asked(rows: Sequence[RunRow]) -> float:
    """Give the longest time limit that the last runs asked for, seconds; 0: not known.

    rows: runs of one identity, the newest last.
    """
    asked = (row.asked_limit_s or row.limit_s or 0 for row in rows[-_LIMITS:])
    return float(max(asked, default=0))


def work_dirs_of(rows: Iterable[RunRow]) -> tuple[str, ...]:
    """Digests of the working directories; none where they differ from run to run."""
    directories = [
        row.submission.folder for row in rows if row.state.says_run_time and row.submission.folder
    ]
    digests = sorted(set(map(digest_of_folder, directories)))
    return tuple(digests) if len(digests) * RUNS_PER_DIRECTORY <= len(directories) else ()


def script_of(rows: Sequence[RunRow]) -> str:
    """Key of the script that the last three runs had; empty: unknown, or they differ.

    Where each run has another one, as generated scripts have, one more says nothing.

    rows: runs of one command, the newest last.
    """
    scripts = {row.script for row in rows[-_SCRIPTS:]}
    return scripts.pop() if len(scripts) == 1 else ""


def ending_problem(endings: Sequence[Ending]) -> Problem | None:
    """Report that half of the latest runs or more did not finish.

    >>> ending_problem([Ending("TIMEOUT", 10, 60.0)]).text
    'all 10 runs of this command reached their time limit'
    """
    bad = [one for one in endings if one.state != JobState.COMPLETED]
    runs = sum(one.runs for one in endings)
    if not bad or 2 * sum(one.runs for one in bad) < runs:
        return None
    words = [(one.runs, _WORDS.get(JobState(one.state), f"ended as {one.state}")) for one in bad]
    if words[0][0] == runs:
        which = f"all {runs} runs" if runs > 1 else "the only run"
        return problem("unfinished", which=which, what=_singular(words[0][1], runs))
    listed = ", ".join(f"{n} {_singular(what, n)}" for n, what in words)
    return problem("unfinished", which=f"of the last {runs} runs", what=listed)


def _singular(words: str, runs: int) -> str:
    if runs > 1:
        return words
    return words.replace("their", "its").replace("were", "was")


def command_of(level: KeyLevel, rows: Sequence[RunRow]) -> str:
    """Script and arguments of the newest run that has a submit line; empty for other keys."""
    if level not in (KeyLevel.SCRIPT, KeyLevel.LINE):
        return ""
    commands = (row.submission.command for row in reversed(rows) if row.submission.program)
    return next(commands, "")


def label_of(level: KeyLevel, key: str, rows: Sequence[RunRow]) -> str:
    """Name the application for people."""
    if level not in (KeyLevel.SCRIPT, KeyLevel.LINE):
        return key
    name, _ = Counter(row.submission.label or row.name for row in rows).most_common(1)[0]
    users = {row.user for row in rows}
    return f"{users.pop()}/{name}" if len(users) == 1 else name


def memory_of(rows: Iterable[RunRow]) -> tuple[Memory, ...]:
    """Highest memory of a node on each count: the largest task times tasks on a node.

    A run that ended for lack of memory is left out: its need is above all that it had.
    """
    needs: dict[int, int] = {}
    short: dict[int, int] = {}
    for row in rows:
        said = evidence_of(row)
        if said.lacked_memory and row.nodes > 0:
            short[row.nodes] = max(said.mem_bytes, short.get(row.nodes, 0))
        elif row.nodes > 0 and row.mem_bytes:
            needs[row.nodes] = max(node_need(row), needs.get(row.nodes, 0))
    needs |= {n: UNBOUNDED for n, least in short.items() if least >= needs.get(n, 0)}
    return tuple(Memory(nodes, need) for nodes, need in sorted(needs.items()))


def owner_of(rows: Iterable[RunRow]) -> str:
    """User whose runs these all are; empty where there are several."""
    users = {row.user for row in rows}
    return users.pop() if len(users) == 1 else ""


def applications_of(rows: Sequence[RunRow]) -> tuple[str, ...]:
    """Applications that tags of these runs name; two at most, which says that there are several."""
    tags = {row.tag: row.identity.program for row in rows if row.tag}
    return tuple(sorted(set(tags.values()))[:2])


def longest_of(rows: Iterable[RunRow]) -> tuple[Longest, ...]:
    """Longest run on each count, of those with a run time."""
    times: dict[int, float] = {}
    cut: dict[int, float] = {}
    completed = 0
    for row in sorted(ended_runs(rows), key=lambda row: row.end_s or 0, reverse=True):
        elapsed_s = float(row.elapsed_s)
        times[row.nodes] = max(elapsed_s, times.get(row.nodes, 0.0))
        completed += row.state.finished
        if row.state.out_of_time and completed < _SINCE_CUT:
            cut[row.nodes] = max(elapsed_s, cut.get(row.nodes, 0.0))
    return tuple(Longest(n, time_s, cut.get(n, 0.0)) for n, time_s in sorted(times.items()))


def prior_of_one_problem(
    level: KeyLevel, rows: Sequence[RunRow], memory: Sequence[float] = ()
) -> float:
    """How likely it is, by what their jobs show, that runs had one problem.

    level: how the application was recognised.
    rows: its runs.
    memory: measured memory of all tasks of each, in bytes; 0: unknown.
    """
    if memory and min(memory) > 0 and max(memory) <= _SAME_MEMORY * min(memory):
        return _VISIBLE
    commands = {row.submission.command for row in rows}
    folders = {row.submission.folder for row in rows}
    arguments = " " in next(iter(commands), "")
    if memory and min(memory) > 0:
        # Every task of one problem may hold a copy of some of it.
        return _NAMED if arguments and len(commands) == 1 else _GROWN
    if len(folders) > 1 or (level is KeyLevel.TAG and len(commands) > 1):
        return _NAMED
    return _VISIBLE if arguments else _BARE


def change_of(
    rows: Sequence[RunRow], unit: Unit, level: KeyLevel = KeyLevel.TAG, *, sized: bool = False
) -> Change:
    """Posterior of a change, and the ranges that were asked for.

    rows: runs of one application, their sizes counted in ``unit``, the newest last.
    level: how it was recognised.
    sized: what differs between problems was taken out of run times.
    """
    finished = [
        row
        for row in rows
        if row.state is JobState.COMPLETED and row.elapsed_s > 0 and row.nodes > 0
    ]
    runs = [sample_of(row, asked_in=unit) for row in finished]
    one_count = len({run.nodes for run in runs}) < 2
    memory = [run.memory_bytes for run in runs]
    prior = _VISIBLE if sized else prior_of_one_problem(level, finished, memory)
    made = _prior() if one_count else _change(Application(runs, same=prior))
    by_range: defaultdict[Range, list[tuple[Sample, RunRow]]] = defaultdict(list)
    # Sizes besides nodes are asked for as one number; that NIMO chose another says of a range.
    moved = {run.asked_range for run in runs if run.nodes != run.asked and unit is not Unit.NODES}
    for run, row in zip(runs, finished, strict=True):
        if run.asked_range[0] != run.asked_range[1] or run.asked_range in moved:
            by_range[run.asked_range].append((run, row))
    ranges = tuple(
        AskedRange(
            low=low,
            high=high,
            level=round(exp(fmean(log(run.asked) for run, _ in own))),
            counts=tuple(sorted({run.nodes for run, _ in own})),
            tries=sum(_is_try(row) for _, row in own),
            memory=memory_of(row for _, row in own),
        )
        for (low, high), own in sorted(by_range.items())
    )
    return replace(
        made,
        ranges=ranges,
        proven=_proven(finished) if unit is Unit.NODES else (),
        moved=sum(run.nodes != run.asked for run in runs),
        tries=sum(_is_try(row) for row in finished),
        visible=prior >= _VISIBLE,
    )


def _is_try(row: RunRow) -> bool:
    return row.try_of == LEARNED or bool(row.submission.study)


def _proven(rows: Sequence[RunRow]) -> tuple[int, ...]:
    """Find the counts that users asked for and completed on.

    Several counts that had one run each, with no day between them, are a study: it says nothing of
    what its user wants for other jobs.
    """
    asked = [
        row
        for row in rows
        if not _is_try(row) and asked_of(row, Unit.NODES) == (row.nodes, (row.nodes,) * 2)
    ]
    counts: set[int] = set()
    series: Counter[int] = Counter()
    last_s = inf
    for row in sorted(asked, key=attrgetter("submit_s")):
        if row.submit_s - last_s > _DAY_S:
            counts.update(_no_study(series))
            series.clear()
        series[row.nodes] += 1
        last_s = row.submit_s
    return tuple(sorted({*counts, *_no_study(series)}))


def _no_study(series: Counter[int]) -> list[int]:
    once = sum(runs == 1 for runs in series.values())
    return [nodes for nodes, runs in series.items() if runs > 1 or once < 2]


def by_types(
    table: PredictionTable, rows: Sequence[RunRow], unit: Unit, level: KeyLevel
) -> PredictionTable:
    """Give each node type with runs on two counts a change of its own.

    rows: runs on all types; those of unknown type are taken to be on the table's.
    """
    if not table.by_type or table.change is None:
        return table
    pooled = table.change

    def own(*types: str) -> Change | None:
        those = [row for row in rows if row.node_type in types]
        done = {row.nodes for row in those if row.state is JobState.COMPLETED}
        if len(done) < 2:
            return None
        made = change_of(those, unit, level)
        said = {
            name: getattr(made, name)
            for name in ("doublings", "paths", "references", "runs", "same")
        }
        return replace(pooled, **said)

    return replace(
        table,
        change=own(table.node_type, "") or pooled,
        by_type=tuple(replace(one, change=own(one.node_type)) for one in table.by_type),
    )


def as_asked(rows: Sequence[RunRow], change: Change, unit: Unit) -> list[RunRow]:
    """Give runs as they would have been on the counts asked for: what a change did taken out."""
    levels = {(one.low, one.high): one.level for one in change.ranges}
    return [_moved(row, change, levels, unit) if row.nodes > 0 else row for row in rows]


def with_asked_cpus(row: RunRow) -> RunRow:
    """Give a run with the CPUs that it asked for on all of its nodes.

    Of a range of nodes Slurm's accounting has the CPUs that were asked for on the fewest.
    """
    asked = row.submission.nodes
    least = row.least_nodes if row.asked_unit else asked and asked[0]
    if not row.req_cpus or not least or least >= row.nodes or row.asked_unit in _SIZES:
        return row
    return replace(row, req_cpus=-(-row.req_cpus * row.nodes // least))


def _moved(row: RunRow, change: Change, levels: dict[Range, int], unit: Unit) -> RunRow:
    asked, group = asked_of(row, unit)
    level = levels.get(group, asked)
    if level == row.nodes:
        return row
    (paths,) = log_ratios(change, level, [row.nodes])
    return replace(row, nodes=level).lasting(row.elapsed_s / exp(fmean(paths)))


@cache
def _prior() -> Change:
    return _change(Application(()))


def _change(application: Application) -> Change:
    paths: Paths = application.paths()
    thousandths = (1000 * paths.logs).round().astype(int)
    return Change(
        doublings=tuple(paths.doublings.tolist()),
        paths=tuple(map(tuple, thousandths.tolist())),
        references=tuple(round(float(n), 3) for n in paths.reference),
        runs=len(application.samples),
        same=round(application.same, 3),
    )
