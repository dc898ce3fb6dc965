"""What a study leaves: its table and the paragraph for a proposal."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import msgspec

from predictor.types import Prediction
from sacct_ingest.text.durations import duration_range, duration_text
from slurm_plugin.experiments.scale import study as studies
from slurm_plugin.text.formatting import clock, count, percent
from slurm_plugin.text.table_columns import ON_REQUEST, SECONDS, SHARE, Column, Table

#: The accounting counts whole seconds: shorter runs say nothing of some percent.
_SHORTEST_S = 20.0


@dataclass(frozen=True, slots=True)
class Row:
    """One count: its measured time, or what is predicted for it, or why there is none."""

    count: int
    runs: int = 0
    time_s: float | None = None
    low_s: float | None = None  #: 90 % interval of one run
    high_s: float | None = None
    speedup: float | None = None  #: over the smallest measured count, times that count
    efficiency: float | None = None
    hours: float | None = None  #: of nodes, CPUs or GPUs
    note: str = ""
    doubt: str = ""  #: why speedup and efficiency say little


@dataclass(frozen=True, slots=True)
class Results:
    """The table, and what is recommended; None: too few runs to say."""

    settings: studies.Settings
    rows: tuple[Row, ...]
    answer: studies.Answer | None
    runs: tuple[studies.StudyRun, ...]

    @property
    def recommended(self) -> int | None:
        """The recommended count."""
        return self.answer.count if self.answer else None

    @property
    def measured(self) -> list[Row]:
        """Rows with runs."""
        return [row for row in self.rows if row.runs]


def results_of(study: studies.Study) -> Results:
    """Make the results of the runs there are."""
    settings = study.settings
    runs = tuple(study.runs)
    allowed = [n for n in settings.counts if n not in study.closed]
    fit = studies.fitted(study.observed)
    answer = studies.answer_of(fit, allowed, weak=settings.weak) if fit and allowed else None
    predicted = {one.nodes: one for one in (answer.predictions if answer else ())}
    times = {
        n: median(one.elapsed_s for one in runs if one.count == n and one.good)
        for n in sorted({one.count for one in runs if one.good})
    }
    base = next(iter(times.items()), None)
    counts = {*times, *(one.count for one in runs if one.reason)}
    counts |= {answer.count} if answer else set()
    rows = tuple(_row(n, study, times.get(n), base, predicted.get(n)) for n in sorted(counts))
    return Results(settings, rows, answer, runs)


def _row(
    n: int,
    study: studies.Study,
    time_s: float | None,
    base: tuple[int, float] | None,
    predicted: Prediction | None,
) -> Row:
    own = [one for one in study.runs if one.count == n and one.ended]
    reasons = "; ".join(dict.fromkeys(one.reason for one in own if one.reason))
    shown_s = time_s if time_s is not None else (predicted.time_s if predicted else None)
    if shown_s is None or base is None or (reasons and time_s is None):
        return Row(n, note=reasons or "not run")
    work = n / base[0] if study.settings.weak else 1.0
    one_s = base[0] * work * base[1]
    speedup = one_s / shown_s
    doubt = ""
    if n != base[0] and min(shown_s, base[1]) < _SHORTEST_S:
        doubt = "runs too short to tell"
    elif speedup > n and predicted and one_s <= n * predicted.high_s:
        doubt = "within the noise of 100 %"
    return Row(
        count=n,
        runs=sum(one.good for one in own),
        time_s=shown_s,
        low_s=predicted.low_s if predicted else None,
        high_s=predicted.high_s if predicted else None,
        speedup=speedup,
        efficiency=speedup / n,
        hours=n * shown_s / 3600,
        note=reasons if time_s is not None else "predicted, not run",
        doubt=doubt,
    )


def table(results: Results) -> Table:
    """Make the table for people, CSV and papers."""
    word = results.settings.sizes.word

    def interval(row: Row) -> str:
        return duration_range(row.low_s, row.high_s)

    def notes(row: Row) -> str:
        return "; ".join(filter(None, (row.note, row.doubt)))

    columns = [
        Column("count", results.settings.sizes.plural),
        Column("runs", "runs", worth=5),
        Column("time_s", "run time", as_text=SECONDS),
        Column("interval", "90 % of runs", interval, worth=4, left=True, derived=True),
        Column("low_s", "at least", as_text=SECONDS, worth=ON_REQUEST),
        Column("high_s", "at most", as_text=SECONDS, worth=ON_REQUEST),
        Column("speedup", "speedup", as_text="{:.2f}".format),
        Column("efficiency", "efficiency", as_text=SHARE),
        Column("hours", f"{word}-hours", as_text="{:.3g}".format),
        Column("note", "note", value=notes, left=True, cuts=True),
    ]
    return Table(columns, results.rows)


def as_json(results: Results, ended: str, used: float) -> str:
    """Give the results as JSON; ``used`` are hours of the budget."""
    return json.dumps({
        "ended": ended,
        "recommended": results.recommended,
        f"{results.settings.sizes.word}_hours": used,
        "rows": [asdict(row) for row in results.rows],
        "runs": [msgspec.to_builtins(run) for run in results.runs],
    })  # fmt: skip


def proposal(results: Results) -> str:
    """Write the paragraph for a proposal."""
    settings = results.settings
    measured = results.measured
    good = [one for one in results.runs if one.good]
    if not measured or results.answer is None:
        return "Too few runs ended well: there is no scaling curve yet."
    word = settings.sizes.word
    kind = "Weak" if settings.weak else "Strong"
    first = measured[0]
    last = measured[-1]
    best = next(row for row in results.rows if row.count == results.recommended)
    place = ", ".join(sorted({f"partition {one.partition} of {one.cluster}" for one in good}))
    each = sorted({one.cpus // one.nodes for one in good if one.nodes})
    cpus = f" ({count(each[0], 'CPU')} of each node)" if len(each) == 1 else ""
    failed = [row for row in results.rows if row.note and not row.runs and row.time_s is None]
    texts = [
        f"{kind} scaling of {Path(settings.script).name} was measured on {place or 'the cluster'}"
        f"{cpus} on {clock(max(one.planned_s for one in good))[:10]} with "
        f"{count(sum(row.runs for row in measured), 'run')} on {first.count} to "
        f"{count(last.count, word)}.",
        f"The run time is {duration_text(first.time_s)} on {count(first.count, word)} and "
        f"{duration_text(last.time_s)} on {count(last.count, word)}, where the parallel efficiency "
        f"is {percent(last.efficiency)}{last.doubt and f' ({last.doubt})'}.",
        *(f"On {count(row.count, word)} it failed ({row.note})." for row in failed),
        f"We use {count(best.count, word)}: {'about ' if not best.runs else ''}"
        f"{duration_text(best.time_s)}, {best.hours:.3g} {word}-hours a run, a speedup of "
        f"{best.speedup:.1f} and an efficiency of {percent(best.efficiency)}"
        f"{best.doubt and f' ({best.doubt})'}; this count has the most speedup for its efficiency "
        "(S²/n).",
    ]
    return " ".join(texts)
