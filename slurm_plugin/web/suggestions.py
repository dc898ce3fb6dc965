"""What to ask for, and what another count would mean: one advice, and one table, of each."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from predictor.application.request import of_usual_job
from predictor.prediction_table import PredictionTable
from predictor.table import at, ran_on
from sacct_ingest.text.durations import duration_range, duration_text
from slurm_plugin.protocol.advice_messages import Advice, Row
from slurm_plugin.reports.advice_text import options_of
from slurm_plugin.reports.curve_text import within
from slurm_plugin.reports.page import Figure
from slurm_plugin.stored_advice.advise import advise_usual
from slurm_plugin.text.formatting import count, hours, percent
from slurm_plugin.web.queue_page import largest_cluster
from slurm_plugin.web.view import View


class Suggestion(NamedTuple):
    """The advice on the job that an application's runs usually were, as `nimo-advise` gives it."""

    asked: str  #: what such a job asks for: options of sbatch
    advice: Advice

    @property
    def options(self) -> str:
        """Options of sbatch that are advised; empty: none."""
        return options_of(self.advice)

    @property
    def row(self) -> Row | None:
        """What comes of the advised count, or of the one asked for; None: nothing is predicted."""
        nodes = self.advice.nodes or self.advice.asked
        return next((one for one in self.advice.rows if one.nodes == nodes), None)


def suggestion(view: View, table: PredictionTable) -> Suggestion | None:
    """Ask for advice on the job that a table's runs usually were; None: there is no such job."""
    if table.is_guess:
        return None
    config = view.site.config
    store = view.site.store
    made = advise_usual(store, table, config, now_s=time.time())
    return Suggestion(made[0].words, made[1]) if made else None


def as_advised(table: PredictionTable, advice: Advice | None) -> PredictionTable:
    """Give a table with the run times of an advice, which go by the usual job's limit, too.

    Counts that the advice does not show stay, and those on which most runs were cut off.
    """
    rows = {row.nodes: row for row in advice.rows} if advice else {}
    median_s = list(table.median_s)
    low_s = list(table.low_s)
    high_s = list(table.high_s)
    for place, nodes in enumerate(table.nodes):
        row = rows.get(nodes)
        if row is not None and row.high_s is not None:
            median_s[place] = row.time_s
            low_s[place] = row.low_s
            high_s[place] = row.high_s
    return replace(table, median_s=tuple(median_s), low_s=tuple(low_s), high_s=tuple(high_s))


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """What one count would mean to the job that an application's runs usually were.

    A form chooses the count; ``hidden`` are its other values, ``choices`` the applications to
    choose from, by their value.
    """

    word: str  #: what is counted, in the plural
    size: int
    fewest: int
    most: int
    sentence: str
    figures: list[Figure]
    hidden: Mapping[str, str] = field(default_factory=dict)
    choices: Mapping[str, str] = field(default_factory=dict)
    chosen: str = ""


def what_if(
    view: View,
    prediction: PredictionTable,
    made: Suggestion | None,
    **form: Mapping[str, str] | str,
) -> WhatIf | None:
    """Read the count of the query from a table; None: there is but one count, or no run time.

    form: what of `WhatIf` is not the table's.
    """
    advice = made.advice if made else None
    table = as_advised(of_usual_job(within(prediction, largest_cluster(view))), advice)
    if len(table.nodes) < 2:
        return None
    fewest = table.nodes[0]
    most = table.nodes[-1]
    advised = (advice.nodes or advice.asked) if advice else None
    size = min(max(view.number("count", advised or fewest), fewest), most)
    unit = table.unit
    told = at(table, size)
    time_text = duration_text(told.time_s)
    if told.unbounded:
        time_text = f"over {time_text}"
    node_hours = size * told.time_s / 3600
    return WhatIf(
        word=unit.plural,
        size=size,
        fewest=fewest,
        most=most,
        sentence=f"On {unit.counted(size)}: about {time_text}, {hours(node_hours)} "
        f"{unit.word}-hours. Predictions reach from {fewest} to {most}.",
        figures=[
            Figure("Run time", time_text, _beside(table, advice, told.time_s)),
            Figure(
                f"{percent(table.confidence)} of runs",
                "no upper end" if told.unbounded else duration_range(told.low_s, told.high_s),
                _support(table, size),
            ),
            Figure(
                f"{unit.word}-hours".capitalize(),
                hours(node_hours),
                _cost(table, advice, node_hours),
            ),
            _limit(advice, size),
        ],
        **form,  # type: ignore[arg-type]
    )


def _beside(table: PredictionTable, advice: Advice | None, time_s: float) -> str:
    """Say how much sooner or later such jobs would end than on the count they ask for."""
    if not (asked := _asked(table, advice)):
        return ""
    saved_s = at(table, asked).time_s - time_s
    if abs(saved_s) < 1.0:
        return "as such jobs ask for"
    word = "less" if saved_s > 0 else "more"
    return f"{duration_text(abs(saved_s))} {word} than on {asked}"


def _cost(table: PredictionTable, advice: Advice | None, node_hours: float) -> str:
    if not (asked := _asked(table, advice)):
        return ""
    more = node_hours - asked * at(table, asked).time_s / 3600
    if abs(more) < 0.05:
        return f"as on {asked}"
    return f"{hours(abs(more))} {'more' if more > 0 else 'less'} than on {asked}"


def _asked(table: PredictionTable, advice: Advice | None) -> int | None:
    asked = advice.asked if advice else None
    return asked if asked and table.nodes[0] <= asked <= table.nodes[-1] else None


def _support(table: PredictionTable, size: int) -> str:
    """Say what the run time rests on."""
    seen = {point.nodes: point.repeats for point in ran_on(table)}
    if runs := seen.get(size):
        return f"from {count(runs, 'run')} on {size}"
    if seen and min(seen) < size < max(seen):
        return "between counts that ran"
    return "beyond the counts that ran"


def _limit(advice: Advice | None, size: int) -> Figure:
    rows = advice.rows if advice else ()
    limit_s = next((one.limit_s for one in rows if one.nodes == size), None)
    if limit_s is None:
        return Figure("Time limit", "your own", "no shorter one is safe")
    return Figure("Time limit", duration_text(limit_s), "to ask for")
