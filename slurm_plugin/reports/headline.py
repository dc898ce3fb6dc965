"""What a report says first: whether NIMO helps, how far to trust it, what to do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import hypot
from typing import TYPE_CHECKING

import msgspec

from sacct_ingest.text.durations import duration_range, duration_text
from slurm_plugin.text.formatting import (
    clock,
    count,
    ends_differ,
    hours,
    interval,
    percent,
    printable,
    with_interval,
)

if TYPE_CHECKING:  # the first line is printed before the rest is loaded
    from slurm_plugin.evaluation.effects import Effect, EffectEstimate, Gain, Promises
    from slurm_plugin.evaluation.outcomes import OutcomeReport

TASKS = 5  #: at most, at the top of a page
_Hours = tuple[float, float, float]  #: value and ends
#: Verdicts, and what they are where nothing was changed yet.
_HELPS = "it helps"
_COSTS = "it costs time"
_WHILE_OBSERVING = {_HELPS: "it would help", _COSTS: "it would cost time"}
_FEWEST = 5  #: runs of an application whose share inside intervals says something


@dataclass(frozen=True, slots=True)
class Task:
    """Something to do; it leads to an application, or to a table of the report."""

    text: str
    application: str = ""
    table: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """The first sentences of a report."""

    benefit: str
    verdict: str  #: one word on the benefit
    trust: str
    worst: str  #: application that the trust names
    tasks: tuple[Task, ...]

    def lines(self) -> list[str]:
        """Benefit with the verdict before it, trust and the first thing to do."""
        to_do = f"To do: {self.tasks[0].text}." if self.tasks else "There is nothing to do."
        verdict = f"{self.verdict[:1].upper()}{self.verdict[1:]}"
        return [f"{verdict}: {self.benefit}", self.trust, to_do]


class Head(msgspec.Struct, frozen=True):
    """What of a report is in its first line."""

    decisions: int
    finished: int
    first_s: float | None
    last_s: float | None


def title_of(report: Head | OutcomeReport) -> str:
    """Give the number of decisions and their period in one line."""
    if not report.decisions:
        return "No decision is recorded for this selection; nimod records one at each submission."
    decisions = count(report.decisions, "decision")
    days = interval(report.first_s, report.last_s, lambda moment_s: clock(moment_s)[:10])
    return f"{decisions}, {days}, {report.finished} with an outcome"


def headline(report: OutcomeReport) -> Headline:
    """Sum up a report."""
    benefits = [_applied(report, one) for one in report.applied]
    benefits = benefits or [_observed(report, one) for one in report.observed]
    nothing = "NIMO changed the count of no job, and would have changed none."
    benefit = " ".join(text for text, _ in benefits) or nothing
    trust, worst = _trust(report)
    return Headline(
        benefit=" ".join((benefit, *proven_lines(report.proven))),
        verdict=benefits[0][1] if benefits else "no benefit yet",
        trust=trust,
        worst=worst,
        tasks=tuple(_tasks(report))[:TASKS],
    )


def proven_lines(gain: Gain) -> Iterator[str]:
    """Say what ``opt_in.proven: on`` would give, as long as there is such a job."""
    if gain.jobs:
        jobs = count(gain.jobs, "job")
        which = f"{jobs} that {'asks' if gain.jobs == 1 else 'ask'} for one count"
        yield f"With opt_in.proven: on, NIMO would also change {which}: {gained(gain)}."


def tries_text(promises: Promises) -> str:
    """Say what tries cost, and what came of them."""
    of = count(promises.applications, "application")
    price = [f"{value:.1f} {unit.word}-hours" for unit, value in promises.try_hours.items()]
    since = [f"since then {gained(one)} in {count(one.jobs, 'job')}" for one in promises.since]
    return "; ".join((f"of {of} took {' and '.join(price)}", *since))


def gained(gain: Gain) -> str:
    """Put node-hours and waiting into words."""
    fewer = "fewer" if gain.node_hours >= 0 else "more"
    parts = [f"{hours(abs(gain.node_hours))} {fewer} {gain.unit.word}-hours"]
    if gain.wait_jobs:
        of = "" if gain.wait_jobs == gain.jobs else f" (known of {gain.wait_jobs})"
        less = "less" if gain.wait_hours >= 0 else "more"
        parts.append(f"{duration_text(3600 * abs(gain.wait_hours))} {less} waiting{of}")
    return ", ".join(parts)


def _applied(report: OutcomeReport, one: Effect) -> tuple[str, str]:
    saved, waited = saved_hours(one)
    better, worse = ("sooner", "later") if waited else ("shorter", "longer")
    text, verdict = _signed(saved, better, worse, jobs=one.jobs)
    other = one.other_node_hours.value
    cost = hours(one.node_hours)
    if other:
        share = one.node_hours / other - 1
        cost = f"{percent(abs(share))} {'fewer' if share < 0 else 'more'}"
    each = "It" if one.jobs == 1 else "On average each"
    missing = "" if waited else " Waits are excluded: predictions of them are too inaccurate."
    return (
        f"NIMO changed the {one.unit.word} count of {count(one.jobs, 'job')}. {each} "
        f"{'ended' if waited else 'ran'} {text}, for {cost} {one.unit.word}-hours.{missing} "
        f"{_harm(one.later, len(report.stopped))}"
    ), verdict if waited else f"{worse if saved[0] < 0 else better} runs, waits unknown"


def _harm(later: int, stopped: int) -> str:
    """Say how many changed jobs were worse off: later than as asked, or stopped by a limit."""
    if not later and not stopped:
        return "None ended over a minute later than as asked, and no limit ended any."
    ended = f"a limit ended {stopped}" if stopped else "no limit ended any"
    return f"{later or 'None'} ended over a minute later than as asked; {ended}."


def saved_hours(one: Effect) -> tuple[_Hours, bool]:
    """Hours that changed jobs ended sooner, with their ends; and whether waits are in that."""
    saved, waited = _saved(one.other_run_hours, one.run_hours), one.wait_jobs == one.jobs
    if waited:
        saved = _sum(saved, _saved(one.other_wait_hours, one.wait_hours))
    return saved, waited


def saved_node_hours(one: Effect) -> _Hours:
    """Node-hours that changed jobs took less than on the count asked for, with their ends."""
    return _saved(one.other_node_hours, one.node_hours)


def _observed(report: OutcomeReport, one: Effect) -> tuple[str, str]:
    cost = _saved(one.other_node_hours, one.node_hours, other_way=True)
    time = _saved(one.other_run_hours, one.run_hours, other_way=True)
    if one.wait_jobs:
        time = _sum(time, _saved(one.other_wait_hours, one.wait_hours, other_way=True))
    what = "of waiting and running" if one.wait_jobs else "of running"
    spent, _ = _signed(cost, "fewer", "more", unit=f"{one.unit.word}-hours")
    took, verdict = _signed(time, "fewer", "more", unit=f"hours {what}")
    return (
        f"NIMO would have changed {one.jobs} of {count(report.finished, 'job')} that ended: "
        f"{spent}, {took}. {one.later or 'None'} would have ended over a minute later than as "
        "asked."
    ), _WHILE_OBSERVING.get(verdict, verdict)


def _saved(other: EffectEstimate, had: float, *, other_way: bool = False) -> _Hours:
    """Hours that NIMO's choice saves: value and ends."""
    sign = -1.0 if other_way else 1.0
    low, high = sorted((sign * (other.low - had), sign * (other.high - had)))
    return sign * (other.value - had), low, high


def _sum(one: _Hours, two: _Hours) -> _Hours:
    value = one[0] + two[0]
    below, above = (hypot(one[0] - one[i], two[0] - two[i]) for i in (1, 2))
    return value, value - below, value + above


def _signed(
    saved: _Hours, better: str, worse: str, *, unit: str = "", jobs: int = 1
) -> tuple[str, str]:
    """Put a saving with its interval into words, each job's share; and give the verdict on it."""
    value, low, high = (one / jobs for one in saved)

    def amount(one: float) -> str:
        return f"{hours(abs(one))}" if unit else duration_text(3600 * abs(one))

    word = better if value >= 0 else worse
    tail = f" {word} {unit}" if unit else f" {word}"
    if low < 0 < high:
        ends = f"{amount(low)} {worse} to {amount(high)} {better}"
        return f"{amount(value)}{tail} (not sure yet: {ends})", "not sure yet"
    near, far = sorted((abs(low), abs(high)))
    text = f"{amount(value)}{tail}"
    if unit:
        text = with_interval(text, near, far, amount)
    elif ends_differ(near, far, amount):
        text = f"{text} ({duration_range(3600 * near, 3600 * far)})"
    return text, _HELPS if value >= 0 else _COSTS


def _trust(report: OutcomeReport) -> tuple[str, str]:
    accuracy = report.accuracy or report.guesses
    if accuracy is None or accuracy.inside is None:
        return "No run has completed yet to compare with its prediction.", ""
    level = percent(report.confidence)
    text = f"{percent(accuracy.inside)} of {count(accuracy.intervals, 'run')} ended inside the "
    text += f"{level} interval"
    of = "counted" if report.accuracy else "accuracy"
    each = [(getattr(row, of), row.application) for row in report.applications]
    judged = [(one.inside, name) for one, name in each if one and one.intervals >= _FEWEST]
    if len(judged) < 2:
        return f"{text}.", ""
    share, worst = min(judged)
    if share >= report.confidence:
        return f"{text}, and no application did worse.", ""
    return f"{text}; the worst is {printable(worst)} with {percent(share)}.", worst


def _tasks(report: OutcomeReport) -> Iterator[Task]:
    """List what there is to do, the most urgent first, one of each kind."""
    if report.stopped:
        jobs = count(len(report.stopped), "job")
        yield Task(f"see why a limit ended {jobs} that NIMO changed", table="stopped")
    for off in report.switched_off[:1]:
        yield Task(
            f"look into {printable(off.label)}, which is switched off: its runs take "
            f"{off.ratio:.2f} times as long as predicted",
            application=off.label,
        )
    for one in report.drift[:1]:
        yield Task(f"{printable(one.application)}: {one.text}", application=one.application)
    for waste in report.waste[:1]:
        yield Task(
            f"ask {printable(waste.user)} to take as many {waste.unit.plural} for "
            f"{printable(waste.application)} as 'nimo-advise' says: "
            f"{hours(waste.wasted_node_hours)} {waste.unit.word}-hours were beyond its knee",
            table="waste",
        )
    for unused in (one for one in report.unused[:1] if one.cpu_hours):
        yield Task(
            f"ask for fewer CPUs for {printable(unused.application)}: it left "
            f"{hours(unused.unused_cpu_hours)} of {hours(unused.cpu_hours)} CPU-hours unused",
            table="unused",
        )
    drifting = {one.application for one in report.drift}
    rows = (one for one in report.problems if one.observe and one.application not in drifting)
    for one in rows:
        size = one.unit.counted(one.observe or 0)
        text = (
            f"run {printable(one.application)} once on {size}: that would improve predictions most"
        )
        yield Task(text, application=one.application)
        break
    if report.observed and not report.applied:
        text = "set mode: enforce, if what NIMO would have done convinces you"
        yield Task(text, table="effects")
