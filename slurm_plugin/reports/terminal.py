"""The report of decisions and outcomes as tables on a terminal."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sacct_ingest.text.durations import duration_range, duration_text
from slurm_plugin.evaluation.accuracy import Accuracy
from slurm_plugin.evaluation.diagnoses import JobDiagnosis, RecordSummary, Waste
from slurm_plugin.evaluation.effects import Deadlines, Effect, EffectEstimate, Promises
from slurm_plugin.evaluation.group_waits import KINDS, GroupWaits
from slurm_plugin.evaluation.outcomes import JobOutcome, OutcomeReport
from slurm_plugin.evaluation.resource_usage import Unused
from slurm_plugin.protocol.status_messages import AT_ONCE_S, SHARE
from slurm_plugin.reports.curve_text import next_run, record_line, standing_line
from slurm_plugin.reports.headline import headline, tries_text
from slurm_plugin.reports.sheets import decision_of, find, sheets_of
from slurm_plugin.reports.wait_tables import wait_line
from slurm_plugin.text.formatting import (
    beside,
    count,
    hours,
    percent,
    printable,
    with_interval,
    wrapped,
)
from slurm_plugin.text.streams import Heading
from slurm_plugin.text.table_columns import WIDTH

_HOUR_S = 3600.0
_MOST = 10  #: rows of a list that is only a summary
_WAITS = 3  #: of one kind of group
_APPLICATIONS = 50  #: a thousand rows are too long to read, and their layout takes seconds


def render(
    report: OutcomeReport, reasons: Mapping[str, str], *, width: int = WIDTH
) -> Iterator[str]:
    """Give the parts of what stands below the title of the report.

    report: what ``outcomes.OutcomeTally`` made.
    reasons: plain words for the names of reasons; a name that is not in it stands for itself.
    width: columns of the terminal.
    """
    if report.decisions:
        yield from _of_decisions(report, reasons, width)
    longest = [row for kind in KINDS for row in _longest(report, kind)]
    yield from _rows("Longest waits for nodes, last four weeks", longest, wait_line, width)
    yield from _rows("Beyond the knee", report.waste, _waste, width)
    yield from _rows("Unused resources", report.unused, _unused, width)
    if report.energy:
        yield _head("Energy and cost")
        yield _table(report, "energy", _MOST, width)
    if report.arrays:
        yield _head("Job arrays, the newest first")
        yield _table(report, "arrays", _MOST, width)


def _of_decisions(report: OutcomeReport, reasons: Mapping[str, str], width: int) -> Iterator[str]:
    yield from (wrapped(printable(line), width) for line in headline(report).lines())
    # Those that NIMO may have harmed come first.
    stopped = "NIMO changed these jobs, and a limit or deadline stopped them"
    yield from _rows(stopped, report.stopped, _stopped, width, table="stopped")
    yield f"\n{beside(_lines(report), width)}"
    if report.unchanged:
        yield _head("Passed unchanged because")
        counted = [(number, reasons.get(name, name)) for name, number in report.unchanged.items()]
        wide = len(str(max(report.unchanged.values())))
        yield beside([(f"  {number:{wide}}", text) for number, text in counted], width)
    yield _head("Applications")
    yield _table(report, "applications", _APPLICATIONS, width)
    left_out = len(report.applications) - _APPLICATIONS
    if left_out > 0:
        yield f"  and {left_out} more: nimo report -P"
    yield from (wrapped(standing_line(row), width) for row in report.switched_off)
    title = "Outcomes of the last predictions"
    yield from _rows(title, report.records, _record, width, table="records")
    title = "What would improve predictions"
    yield from _rows(title, report.problems, _problem, width, table="problems")


def _rows(
    title: str, rows: Sequence[Any], sentence: Callable[[Any], str], width: int, *, table: str = ""
) -> Iterator[str]:
    """Head the first rows of a table, a sentence each; nothing without any."""
    if rows:
        yield _head(title)
    for row in rows[:_MOST]:
        yield wrapped(f"  {sentence(row)}", width)
    if table and len(rows) > _MOST:
        yield f"  and {len(rows) - _MOST} more: nimo report -P --table {table}"


def _longest(report: OutcomeReport, kind: str) -> Sequence[GroupWaits]:
    """Give the groups of a kind that wait longest, without those that start at once."""
    return [one for one in report.group_waits if one.kind == kind and one.most_s > AT_ONCE_S][
        :_WAITS
    ]


def _stopped(job: JobOutcome) -> str:
    return (
        f"{job.job_id}  {printable(job.application)}: {job.state} after "
        f"{duration_text(job.took_s)} on {count(job.nodes, 'node')}; NIMO gave it "
        f"{decision_of(job)}"
    )


def _head(text: str) -> Heading:
    return Heading(f"\n{text}")


def _record(row: RecordSummary) -> str:
    return f"{printable(row.application)}, {row.verdict}: {record_line(row, row.unit)}"


def _problem(row: JobDiagnosis) -> str:
    run = next_run(row.observe, row.unit)
    return f"{printable(row.application)}, {row.verdict}: {row.text}{run}"


def _waste(row: Waste) -> str:
    few, many = row.nodes
    nodes = f"{few}" if few == many else f"{few} to {many}"
    return (
        f"{printable(row.user)}, {printable(row.application)}: {count(row.runs, 'run')} used "
        f"{nodes} {row.unit.plural}.  {row.knee} would take {row.slower:.2f} times as long, and "
        f"save {hours(row.wasted_node_hours)} of {hours(row.node_hours)} {row.unit.word}-hours."
    )


def _unused(row: Unused) -> str:
    where = f"{printable(row.account)}, " if row.account else ""
    had = [
        f"{hours(row.unused_cpu_hours)} of {hours(row.cpu_hours)} CPU-hours",
        f"{hours(row.idle_gpu_hours)} of {hours(row.gpu_hours)} GPU-hours",
        f"{hours(row.unused_mem_gib_hours)} of {hours(row.mem_gib_hours)} GiB-hours of memory",
    ]
    totals = (row.cpu_hours, row.idle_gpu_hours, row.mem_gib_hours)
    measured = [text for text, some in zip(had, totals, strict=True) if some]
    return (
        f"{where}{printable(row.application)}: {count(row.jobs, 'job')} left "
        f"{' and '.join(measured)} unused.{_least(row)}{_saved(row)}"
    )


def _least(row: Unused) -> str:
    """Say what would have been enough for each job; empty where nothing was measured."""
    measured = [
        f"{count(row.least_cpus, 'CPU')}" if row.least_cpus else "",
        f"{count(row.least_gpus, 'GPU')}" if row.least_gpus is not None else "",
        f"{row.least_mem_gib:.1f} GiB" if row.least_mem_gib is not None else "",
    ]
    needs = [text for text in measured if text]
    return f"  None used more than {' and '.join(needs)}." if needs else ""


def _saved(row: Unused) -> str:
    """Say what advice by the jobs before would have saved; empty for nothing."""
    amounts = {
        "CPU-hours": row.saved_cpu_hours,
        "GPU-hours": row.saved_gpu_hours,
        "GiB-hours": row.saved_mem_gib_hours,
    }
    saved = [f"{hours(amount)} {name}" for name, amount in amounts.items() if amount]
    if not saved:
        return ""
    short = f", but was too little for {count(row.short_jobs, 'job')}" if row.short_jobs else ""
    return f"  Advice would have saved {' and '.join(saved)}{short}."


def _lines(report: OutcomeReport) -> Iterator[tuple[str, str]]:
    yield "modes", _listed(report.modes)
    yield "actions", _listed(report.actions)
    yield "accuracy", _accuracy(report.accuracy, report.confidence)
    if report.guesses:
        guesses = _accuracy(report.guesses, report.confidence)
        yield "guesses", f"{guesses}; never used to change a job"
    if report.accuracy and report.accuracy.coverage:
        yield from _coverage(report.accuracy)
    for of, groups in (("verdict", report.by_verdict), ("recognised by", report.by_level)):
        for name, accuracy in groups.items() if len(groups) > 1 else ():
            yield f"{of} {name}", _accuracy(accuracy, report.confidence)
    if (due := report.deadlines) != Deadlines():
        warned = f"; {due.warned} warned at submission" if due.warned else ""
        made = f"{due.met} met, {due.missed} missed, {due.refused} refused, {due.open} still open"
        yield "deadlines", f"{made}{warned}"
    if planned := report.planned.jobs:
        waits = report.planned.wait_before_s, report.planned.wait_since_s
        before, since = map(duration_text, waits)
        jobs = f"{count(planned, 'job')} with less than {'its' if planned == 1 else 'their'} limit"
        yield "planned", f"{jobs}; {report.planned.outlasted} ran longer than planned"
        yield "", f"mean wait of all jobs: {before} before, {since} since"
    yield from _kept_lines(report)
    for effect in report.applied:
        yield from _effect(
            "changed jobs", "ran on another count than asked for", effect, "as asked"
        )
    for effect in report.observed:
        which = "would have another count in mode enforce"
        yield from _effect("left alone", which, effect, "on that count")


def _kept_lines(report: OutcomeReport) -> Iterator[tuple[str, str]]:
    """Say how predicted waits and promises came true."""
    for name, held in (("started at once", report.waits.at_once), ("waited", report.waits.waiting)):
        if held:
            yield (
                name,
                f"{percent(SHARE)} of {count(held.jobs, 'job')} started within "
                f"{duration_text(held.within_s)} of the predicted time; {_late(held.later)}",
            )
    for one in report.queue_waits:
        inside = "" if one.inside is None else f", {percent(one.inside)} inside their interval"
        near = f"half off by a factor of {one.within:.2f} or less{inside}"
        yield f"waits in {one.partition}", f"{count(one.jobs, 'estimate')} ({one.of}): {near}"
    if (promises := report.promises) != Promises():
        kept = f"{promises.kept} of {count(promises.jobs, 'changed job')} ended as promised"
        tries = f"{count(promises.tries, 'try', 'tries')} {tries_text(promises)}"
        otherwise = (
            f"{count(promises.otherwise, 'job')} ran on another count than NIMO chose: the range "
            "was given back, or its user changed it"
        )
        said = (
            kept if promises.jobs else "",
            otherwise if promises.otherwise else "",
            tries if promises.tries else "",
        )
        yield "promises", "; ".join(filter(None, said))


def _coverage(accuracy: Accuracy) -> Iterator[tuple[str, str]]:
    first, *others = (
        f"{percent(level.nominal)}: {percent(level.inside)} of runs inside"
        f"{' (derived)' if level.derived else ''}"
        for level in accuracy.coverage
    )
    yield "intervals", first
    for level in others:
        yield "", level
    longer = f"{percent(accuracy.longer)} took longer than predicted"
    yield "", f"{longer}, {percent(accuracy.beyond)} longer than the stored interval"


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {number}" for name, number in counts.items())


def _accuracy(accuracy: Accuracy | None, confidence: float) -> str:
    if accuracy is None:
        return "no completed run to compare with yet"
    text = (
        f"{count(accuracy.runs, 'run')} compared: {percent(accuracy.mape, 1)} off on average "
        f"(MAPE); the median run took {accuracy.bias:.2f} times its prediction"
    )
    if accuracy.inside is None:
        return text
    return (
        f"{text}; {percent(accuracy.inside)} of {accuracy.intervals} "
        f"inside the {percent(confidence)} interval"
    )


def _effect(name: str, which: str, effect: Effect, other: str) -> Iterator[tuple[str, str]]:
    """Say what happened, and behind it what the other counts would have come to."""
    yield name, f"{count(effect.jobs, 'job')} {which}"
    used = f"{hours(effect.node_hours)} {effect.unit.word}-hours"
    yield "", f"{used}; {other} about {_estimate(effect.other_node_hours)}"
    ran = f"{_span(effect.run_hours)} of run time"
    yield "", f"{ran}; {other} about {_span_estimate(effect.other_run_hours)}"
    if effect.wait_jobs:
        of = "" if effect.wait_jobs == effect.jobs else f" of {count(effect.wait_jobs, 'job')}"
        waited = f"{_span(effect.wait_hours)} of waiting{of}"
        yield "", f"{waited}; {other} about {_span_estimate(effect.other_wait_hours)}"
    if effect.unsure_wait_jobs:
        waits = count(effect.unsure_wait_jobs, "wait")
        yield "", f"{waits} left out: predictions of them are too inaccurate"


def _estimate(estimate: EffectEstimate) -> str:
    return with_interval(hours(estimate.value), estimate.low, estimate.high, hours)


def _span_estimate(estimate: EffectEstimate) -> str:
    """Write run time or waiting of several jobs with its interval."""
    value = _span(estimate.value)
    ends = duration_range(_HOUR_S * estimate.low, _HOUR_S * estimate.high)
    return value if ends == value else f"{value} ({ends})"


def _late(share: float) -> str:
    """Say how many jobs started more than a minute later than predicted."""
    return f"{percent(share) if share else 'none'} more than a minute late"


def _span(hours_: float) -> str:
    return duration_text(_HOUR_S * hours_)


def _table(report: OutcomeReport, name: str, most: int, width: int) -> str:
    whole = find(sheets_of(report, {}), name)
    return replace(whole, rows=whole.rows[:most]).text(width=width)
