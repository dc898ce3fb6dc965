"""Applications: their list, and of each one curve, table, runs, facts and what to ask for."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from math import expm1, inf
from operator import itemgetter
from statistics import median

from predictor.application.request import of_usual_job, usual
from predictor.job_table import for_type
from predictor.level.record import Record
from predictor.level.record import decode as decode_record
from predictor.prediction_table import PredictionTable
from predictor.stored_table import decode
from predictor.types import Verdict
from sacct_ingest.errors import PlotError
from sacct_ingest.records import JobState, KeyLevel, StandingRow
from sacct_ingest.runs.layout import Unit
from sacct_ingest.store import DecisionSelection, RunRow
from sacct_ingest.text.durations import duration_range, duration_text
from slurm_plugin.config.settings import Config, Energy
from slurm_plugin.decision.messages import next_run
from slurm_plugin.evaluation.accuracy import predicted_for
from slurm_plugin.evaluation.costs import source_text, table_amounts
from slurm_plugin.evaluation.outcomes import Pair
from slurm_plugin.protocol.advice_messages import Advice
from slurm_plugin.reports import chart, curve_text
from slurm_plugin.reports.chart_marks import Chart
from slurm_plugin.reports.curve_chart import curve
from slurm_plugin.reports.html import Cell, PasteLine
from slurm_plugin.reports.picture import NEXT_RUN, RECOMMENDED, SIGNS, Picture, of_table
from slurm_plugin.reports.time_charts import Moment, ratios
from slurm_plugin.store_access import last_runs
from slurm_plugin.text.formatting import RECOGNISED, clock, count, hours, percent, short_clock
from slurm_plugin.text.table_columns import AMOUNT, SECONDS, SHARE, Column, Table, text_column
from slurm_plugin.web.data import GROUPS, ORDERS, VERDICTS, CatalogueEntry, CatalogueQuery, may_see
from slurm_plugin.web.decisions_page import decisions_table
from slurm_plugin.web.queue_page import largest_cluster
from slurm_plugin.web.suggestions import Suggestion, as_advised, suggestion, what_if
from slurm_plugin.web.view import ROWS, SOME, PageMissing, View, Zoom

_ANY = CatalogueQuery()
_AMOUNTS = ("kwh", "cost", "co2_g")
_DOTS = 30  #: runs of an application that are drawn one by one
_FORMULAS = {
    "averaged": "T(n) = T(1) · ((1 − s) / n^e + s + c · (n^g − 1) / g), averaged over thousands of "
    "values of s, e, c and g, each weighted by how well it fits the runs",
    "downey": "T(n) = T(1) / S(n), Downey's speedup S of average parallelism A and variance σ",
}
_READ = {
    Verdict.RELIABLE: "reliable: may change jobs",
    Verdict.DOUBTFUL: "doubtful: makes no time limit",
    Verdict.REFUSED: "refused: too poor to use",
}


def applications(view: View) -> str:
    """Find applications: words, groups, an order, a page at a time."""
    filters = CatalogueQuery(
        text=view.text("q"),
        group=view.choice("group", GROUPS, _ANY.group),
        verdict=view.choice("verdict", VERDICTS, _ANY.verdict),
        order=view.choice("order", ORDERS, _ANY.order),
        reverse=view.choice("reverse", ("no", "yes")) == "yes",
    )
    matches = view.site.catalogue().select(filters, may_see(view.viewer.visibility))
    last = max(1, -(-len(matches) // ROWS))
    page = min(view.number("page", 1), last)
    return view.render(
        "applications.html.j2",
        "Applications",
        filters=filters,
        groups={name: words for name, (words, _) in GROUPS.items()},
        verdicts={name: words for name, (words, _) in VERDICTS.items()},
        table=_listing(view, matches[(page - 1) * ROWS : page * ROWS], filters),
        total=count(len(matches), "application"),
        page=page,
        last=last,
        links={
            number: _list_link(view, filters, page=number if number > 1 else "")
            for number in {1, page - 1, page + 1, last}
        },
    )


def one_application(view: View) -> str:
    """Show one application's curve, its facts and its newest decisions."""
    entry = view.application((view.text("level"), view.text("key")))
    if entry is None:
        # It does not say which: the application is missing, or the user may not see it.
        raise PageMissing("there is no such application, or other users ran it")
    level = KeyLevel(entry.level)
    rows = view.site.store.fits.find([(level, entry.key)])
    if not rows:
        raise PageMissing("the store no longer has this application; look for it in the list")
    prediction = decode(rows[0].payload)
    same = DecisionSelection(key_level=entry.level, key=entry.key)
    pairs = view.site.decisions(view.viewer, same, most=_DOTS)
    standings = {(row.level.value, row.key): row for row in view.site.store.standings.all()}
    counts = view.choice("counts", ("some", "all"))
    every = counts == "all"
    runs = last_runs(view.site.store, prediction, _DOTS)
    largest = largest_cluster(view)
    config = view.site.config
    identity = {"level": entry.level, "key": entry.key}
    zoom, of_runs = view.zoom("zoom", "/application"), view.zoom("runs", "/application", dates=True)
    parts = {name: view.text(name) for name in ("zoom", "runs")}
    history = [one for one in _history(pairs) if of_runs is None or one.key in of_runs]
    shown = curve_text.within(prediction, largest)
    made = suggestion(view, prediction)
    steps = _advised(made) if made else []
    if (best := next_run(prediction, largest or inf)) is not None:
        size = prediction.unit.counted(best)
        steps.append([f"{SIGNS[NEXT_RUN]} A run on {size} would improve its predictions most"])
    return view.render(
        "application.html.j2",
        prediction.label,
        at="Applications",
        prediction=prediction,
        facts=facts(shown, standings.get(entry.table_key), config.energy),
        experts=_experts(view.site.store.records.find(entry.level, entry.key)),
        steps=steps,
        zooms=(zoom, of_runs),
        history=_drawn_runs(history) if history else None,
        what_if=what_if(view, prediction, made, hidden=identity | {"counts": counts} | parts),
        curves=list(
            _curves(prediction, made, config, runs, every=every, largest=largest, zoom=zoom)
        ),
        every=every,
        other=view.link(
            "/application",
            **identity,
            counts="" if every else "all",
            count=view.text("count"),
            **parts,
        ),
        decisions=decisions_table(view, pairs[:SOME], "Its newest decisions", empty="none yet"),
        more=view.link("/decisions", **identity),
    )


def _drawn_runs(history: Sequence[Moment]) -> Chart:
    return replace(ratios("Its runs beside their predictions", history), zoom="runs")


def _history(pairs: Sequence[Pair]) -> Iterator[Moment]:
    """Give the completed runs beside what was predicted for each, the oldest first."""
    for one, run in reversed(pairs):
        predicted = predicted_for(one, run.nodes) if run else None
        if not (run and predicted and run.state is JobState.COMPLETED and run.elapsed_s > 0):
            continue
        time_s, low_s, high_s = predicted
        known = low_s is not None and high_s is not None
        between = f", {duration_range(low_s or 0.0, high_s or 0.0)} expected" if known else ""
        text = (
            f"Job {run.job_id}, {short_clock(one.at_s)}: {duration_text(run.elapsed_s)} on "
            f"{Unit(one.unit).counted(run.nodes)}; {duration_text(time_s)} predicted{between}"
        )
        yield Moment(
            label=short_clock(one.at_s)[:5],
            value=run.elapsed_s / time_s,
            text=text,
            low=low_s / time_s if low_s is not None else None,
            high=high_s / time_s if high_s is not None else None,
            key=clock(one.at_s),
        )


def _list_link(view: View, filters: CatalogueQuery, **more: object) -> str:
    named = {
        "q" if name == "text" else name: "yes" if value is True else value
        for name, value in asdict(filters).items()
        if value != getattr(_ANY, name)
    }
    return view.link("/applications", **named, **more)


def _listing(view: View, shown: Sequence[CatalogueEntry], filters: CatalogueQuery) -> Table:
    def ordered(column: Column) -> Column:
        """Link to the rows in the order of the column, or to that order turned round."""
        key = "nodes" if column.name == "observed" else column.name
        if key not in ORDERS:
            return column
        present = filters.order == key
        turned = replace(filters, order=key, reverse=present and not filters.reverse)
        down = ORDERS[filters.order][1] != filters.reverse
        order = ("descending" if down else "ascending") if present else ""
        return replace(column, rows_link=_list_link(view, turned), sorted=order)

    columns = [
        text_column(
            "application",
            "application",
            value=lambda entry: entry.name,
            link=lambda entry: view.application_link(entry).href,
        ),
        text_column("details", "differs by", value=view.site.catalogue().details),
        text_column("level", "recognised by", as_text=lambda level: RECOGNISED[KeyLevel(level)]),
        Column("runs", "runs"),
        Column("observed", "observed", lambda entry: len(entry.nodes), show=_observed),
        Column(
            "knee", "knee", show=lambda entry: f"{entry.knee} {entry.unit}" if entry.knee else "-"
        ),
        text_column(
            "verdict",
            "verdict",
            show=lambda entry: f"{entry.verdict}{', switched off' * bool(entry.off)}",
        ),
        text_column("model", "model"),
    ]
    return Table(
        [ordered(one) for one in columns],
        shown,
        "catalogue",
        "Applications",
        empty="no application matches these words and choices",
    )


def _observed(entry: CatalogueEntry) -> str:
    few, many = min(entry.nodes, default=0), max(entry.nodes, default=0)
    if few < many:
        return f"{few} to {many} {entry.unit}"
    return count(many, entry.unit.removesuffix("s")) if many else "-"


def facts(
    prediction: PredictionTable, standing: StandingRow | None, energy: Energy
) -> list[tuple[str, str]]:
    """List the facts of an application besides its curve; those that are empty do not apply."""
    unit, memory = prediction.unit, prediction.mem_node_bytes
    whole = "on a node" if unit is Unit.NODES else "of a job"
    job = of_usual_job(prediction)
    knee, end = (unit.counted(n) if n else "" for n in (job.knee, job.max_useful))
    return [
        ("Verdict", _READ[prediction.verdict]),
        ("Recognised by", RECOGNISED[prediction.level]),
        ("Command of its newest run", prediction.command),
        ("Layout of its runs", str(prediction.layout)),
        ("Finished runs", str(prediction.runs)),
        ("Model", prediction.model),
        ("Formula", _FORMULAS.get(prediction.model.partition(",")[0], "")),
        ("Knee (most speedup for its cost)", knee),
        ("Run time stops falling at", end),
        (f"Largest memory observed {whole}", f"{memory / 2**30:.1f} GiB" if memory else ""),
        *(
            (f"Use of {use.unit.plural}", curve_text.use_text(use).removeprefix("runs use "))
            for use in prediction.uses
        ),
        ("Energy", source_text(energy, prediction)),
        ("Memory", "; ".join(curve_text.memory_lines(prediction))),
        ("Record", "; ".join(curve_text.record_line(one, unit) for one in prediction.record)),
        ("Last fit", clock(prediction.fitted_s)),
        ("Outcomes of its predictions", curve_text.standing_line(standing) if standing else ""),
    ]


def _advised(made: Suggestion) -> list[list[Cell]]:
    """Say what to ask for in place of what such jobs usually ask for."""
    row, advice = made.row, made.advice
    about = ""
    if row is not None:
        cost = f"{hours(row.node_hours)} {advice.unit.word}-hours"
        about = f" (about {duration_text(row.time_s)}, {cost})"
    what: list[Cell] = [f"{SIGNS[RECOMMENDED]} No advice: {advice.reason}"]
    if made.options:
        what = [f"{SIGNS[RECOMMENDED]} Ask for: ", PasteLine(made.options), about]
    return [what, [f"For a job that asks for {made.asked}"]]


def _experts(payload: str | None) -> Table | None:
    """List the methods that predict the next run, with what each said of the last runs."""
    from predictor.level.experts import EXPERTS  # noqa: PLC0415 - numpy: no other page needs it

    entries = decode_record(payload, Record).entries
    chosen = Counter(one.chosen for one in entries)
    rows = []
    for number, name in enumerate(EXPERTS):
        logs = [one.errors[number] for one in entries if number < len(one.errors)]
        errors = [abs(expm1(-log)) for log in logs if log is not None]
        if errors:
            rows.append((name, len(errors), median(errors), chosen[number]))
    columns = [
        text_column("method", "method", value=itemgetter(0)),
        Column("runs", "runs", itemgetter(1)),
        Column("error", "median error", itemgetter(2), SHARE),
        Column("chosen", "times used", itemgetter(3)),
    ]
    caption = "Methods for the next run, by their errors on the last runs"
    return Table(columns, rows, "experts", caption) if rows else None


def _curves(
    prediction: PredictionTable,
    made: Suggestion | None,
    config: Config,
    runs: Sequence[RunRow],
    *,
    every: bool,
    largest: int | None,
    zoom: Zoom | None,
) -> Iterator[dict[str, object]]:
    """Curves on the node type that the table is about and on the others.

    made: advice on one of its jobs, on one type of node.
    runs: the last ones, for the first curve.
    every: all node counts instead of those observed and powers of two.
    largest: nodes of the cluster; None: unknown.
    zoom: counts that are drawn; None: all.
    """
    drawn = [one for one in runs if one.state is JobState.COMPLETED]
    for node_type in (prediction.node_type, *(one.node_type for one in prediction.by_type)):
        table = for_type(prediction, node_type)
        shown = curve_text.within(table, largest)
        on = f" on nodes of the type {node_type}" if node_type else ""
        advice = made.advice if made and made.advice.node_type in ("", node_type) else None
        job = as_advised(of_usual_job(shown), advice)
        yield {
            "node_type": node_type,
            "chart": _drawing(shown, advice, on, drawn, config.cluster, zoom),
            "table": _table(job, advice, on, drawn, config, every=every),
            "verdict": _READ[table.verdict],
            "problems": table.problems,
        }
        drawn = []


def _drawing(
    prediction: PredictionTable,
    advice: Advice | None,
    on: str,
    runs: Sequence[RunRow],
    cluster: str,
    zoom: Zoom | None,
) -> Chart | None:
    """Draw the curve; of runs on one count how often they took how long."""
    own = usual(prediction)
    times = [one.elapsed_s for one in runs if one.elapsed_s > 0]
    tried = {prediction.unit.size_of(one) for one in runs} - {0}
    one_count = len(prediction.observed) == 1 and len(tried) < 2
    if own and one_count and times and own.nodes in prediction.nodes:
        i = prediction.nodes.index(own.nodes)
        return chart.histogram(
            f"Run times on {prediction.unit.counted(own.nodes)}{on}",
            times,
            low_s=prediction.low_s[i],
            high_s=prediction.high_s[i],
            limit_s=float(runs[-1].limit_s) if runs[-1].limit_s else None,
            caption=of_table(prediction, cluster=cluster).caption,
        )
    with suppress(PlotError):
        title = f"Run time over {prediction.unit.plural}{on}"
        picture = of_table(prediction, runs, cluster=cluster)
        nodes = advice.nodes if advice else None
        picture = replace(picture, title=title, recommended=nodes)
        return replace(curve(_part(picture, zoom) if zoom else picture), zoom="zoom")
    return None


def _part(picture: Picture, zoom: Zoom) -> Picture:
    """Leave the counts that are asked for, and those observed that are nearest to them."""
    low, high = int(zoom.low), int(zoom.high)
    ran = [point.nodes for point in picture.observed]
    if not any(low <= nodes <= high for nodes in ran):
        nearest = min(ran, key=lambda nodes: min(abs(nodes - low), abs(nodes - high)))
        low, high = min(low, nearest), max(high, nearest)

    def inside(nodes: int | None) -> bool:
        return nodes is not None and low <= nodes <= high

    some = [i for i, nodes in enumerate(picture.nodes) if inside(nodes)]
    # The legend names the count that such a job asks for: it is drawn with that, or not at all.
    asked = picture.asked if inside(picture.asked) else None
    job = [i for i, nodes in enumerate(picture.asked_nodes) if asked and inside(nodes)]
    return replace(
        picture,
        nodes=tuple(picture.nodes[i] for i in some),
        median_s=tuple(picture.median_s[i] for i in some),
        low_s=tuple(picture.low_s[i] for i in some),
        high_s=tuple(picture.high_s[i] for i in some),
        observed=tuple(point for point in picture.observed if inside(point.nodes)),
        runs=tuple(run for run in picture.runs if inside(run[0])),
        asked_nodes=tuple(picture.asked_nodes[i] for i in job),
        asked_s=tuple(picture.asked_s[i] for i in job),
        knee=picture.knee if inside(picture.knee) else None,
        observe=picture.observe if inside(picture.observe) else None,
        recommended=picture.recommended if inside(picture.recommended) else None,
        asked=asked,
    )


def _table(
    prediction: PredictionTable,
    advice: Advice | None,
    on: str,
    runs: Sequence[RunRow],
    config: Config,
    *,
    every: bool,
) -> Table:
    repeats = Counter({point.nodes: point.repeats for point in prediction.observed})
    repeats |= Counter(map(prediction.unit.size_of, runs))  # tries count on what was asked for
    energy, taken = config.energy, table_amounts(config.energy, prediction, time.time())
    titles = ("kWh", energy.currency or "cost", "g CO2e")
    known = [j for j in range(3) if any(one[j] is not None for one in taken)]
    first = prediction.nodes[0] * prediction.median_s[0] if prediction.nodes else 0.0
    word, asked = prediction.unit.word, prediction.asked
    job = f" of a job that asks for {count(asked, word)}" if asked else ""
    as_asked = {point.nodes: duration_text(point.time_s) for point in prediction.observed}
    over = {one.nodes for one in prediction.starts if one.unbounded}
    limits_s = {one.nodes: one.limit_s for one in advice.rows} if advice else {}

    def run_time(i: int) -> str:
        time_s = duration_text(prediction.median_s[i])
        return f"over {time_s}" if prediction.nodes[i] in over else time_s

    def interval(i: int) -> str:
        if prediction.nodes[i] in over:
            return "no upper end"
        return duration_range(prediction.low_s[i], prediction.high_s[i])

    def efficiency(i: int) -> float | None:
        return first / used_s(i) if prediction.is_curve else None

    def used_s(i: int) -> float:
        return prediction.nodes[i] * prediction.median_s[i]

    def taken_of(place: int) -> Callable[[int], float | None]:
        return lambda i: taken[i][place]

    def said(i: int) -> str:
        nodes = prediction.nodes[i]
        own = as_asked.get(nodes) if asked else curve_text.verdict_at_entry(prediction, i)
        return ", ".join(filter(None, (own, count(repeats[nodes], "run"))))

    columns = [
        Column("nodes", prediction.unit.plural, lambda i: prediction.nodes[i]),
        Column("median_s", "run time", lambda i: prediction.median_s[i], show=run_time),
        Column("interval", f"{percent(prediction.confidence)} of runs", interval, derived=True),
        Column("node_hours", f"{word}-hours", lambda i: used_s(i) / 3600, AMOUNT),
        *(Column(_AMOUNTS[j], titles[j], taken_of(j), AMOUNT) for j in known),
        Column("efficiency", "efficiency", efficiency, SHARE),
        Column("limit_s", "limit", lambda i: limits_s.get(prediction.nodes[i]) or None, SECONDS),
        text_column("said", "runs there took" if asked else "verdict", value=said),
    ]
    return Table(
        columns,
        curve_text.shown_counts(prediction, every=every),
        "counts",
        f"Run time{job} by {word} count{on}",
        empty="nothing is predicted",
    )
