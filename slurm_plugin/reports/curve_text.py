"""The prediction for one application as text."""

from collections.abc import Callable, Iterable, Iterator

from predictor.application.request import of_usual_job
from predictor.facts import ResourceUse
from predictor.job_table import for_type, within_cluster
from predictor.prediction_table import PredictionTable, Recorded
from predictor.problems import Problem
from predictor.stored_table import whole_key
from predictor.table import of_rows, ran_on
from predictor.types import Verdict
from sacct_ingest.records import KeyLevel, StandingRow
from sacct_ingest.runs.attributes import size_text
from sacct_ingest.runs.layout import Unit
from sacct_ingest.scripts.engines import ENGINE_NAMES
from sacct_ingest.text.durations import duration_range, duration_text
from slurm_plugin.config.settings import Energy
from slurm_plugin.evaluation.costs import source_text, table_amounts
from slurm_plugin.evaluation.diagnoses import RecordSummary, with_best_run
from slurm_plugin.text import formatting as fmt
from slurm_plugin.text import table_columns as cols

#: Verdicts in words.
READ = {
    Verdict.RELIABLE: "reliable",
    Verdict.DOUBTFUL: "doubtful: makes no time limit",
    Verdict.REFUSED: "refused: too uncertain to show or use",
}

#: Weight of the forms from which on they say by what of a size run time goes.
_HALF = 0.5


def render(
    prediction: PredictionTable,
    *,
    every: bool = False,
    width: int = cols.WIDTH,
    options: cols.TableOptions | None = None,
    verbose: bool = False,
    energy: Energy | None = None,
    now_s: float = 0.0,
) -> str:
    """Write one application's curve as text: the table, then the verdict and its reasons.

    every: all node counts instead of those observed and powers of two.
    width: columns of the terminal.
    options: columns, order and titles of the table that the user asks for.
    verbose: also by which powers of which numbers run time goes, and by what template or workflow
        engine its runs are one application.
    energy: power, prices and CO2e; ``now_s``: present, seconds since the epoch.
    Raises NoColumn: the options name a column that there is not.
    """
    energy = energy or Energy()
    job = of_usual_job(prediction)
    word = prediction.unit.word
    head = [
        *title_lines(prediction, job, verbose=verbose),
        f"model: {prediction.model}",
        *(_template_lines(prediction) if verbose else ()),
    ]
    lines = [
        f"verdict: {READ[prediction.verdict]}",
        *(f"  {record_line(one, prediction.unit)}" for one in prediction.record),
        *(problem_line(one, prediction.unit) for one in with_best_run(prediction.problems)),
    ]
    if job.knee is not None:
        lines.append(f"knee (most speedup for its cost, max S²/n): {fmt.count(job.knee, word)}")
    if job.max_useful is not None:
        lines.append(f"run time stops falling at {fmt.count(job.max_useful, word)}")
    lines += [*memory_lines(prediction), *map(use_text, prediction.uses)]
    lines += filter(None, [source_text(energy, prediction)])
    table = curve_table(job, energy, now_s, every=every).text(options, width=width)
    parts = [_wrapped(head, width), table, _wrapped(lines, width)]
    for node_type in [one.node_type for one in prediction.by_type if prediction.node_type]:
        own = within(for_type(prediction, node_type))
        runs = fmt.count(own.runs, "run")
        head = [f"nodes of the type {fmt.printable(node_type)}: {runs}, model: {own.model}"]
        table = curve_table(own, energy, now_s, every=every).text(options, width=width)
        problems = (problem_line(problem, prediction.unit) for problem in own.problems[:1])
        lines = [f"verdict: {READ[own.verdict]}", *problems]
        parts += [_wrapped(head, width), table, _wrapped(lines, width)]
    return "\n\n".join(parts)


def title_lines(
    prediction: PredictionTable, job: PredictionTable, *, verbose: bool = False
) -> list[str]:
    """Say which application it is, and what the rows of its table are.

    job: the table of its usual job.
    """
    label = fmt.printable(prediction.label)
    runs = fmt.count(prediction.runs, "run")
    lines = [f"{label}: {runs}, recognised by {fmt.RECOGNISED[prediction.level]}"]
    if prediction.node_type:
        lines.insert(0, f"nodes of the type {fmt.printable(prediction.node_type)}")
    if prediction.command:
        lines.append(f"command: {fmt.printable(prediction.command)}")
    return [*lines, *_sizes(prediction, verbose=verbose), *_asked(job)]


def _asked(job: PredictionTable) -> list[str]:
    """Say which job the rows are; nothing where they are jobs as they were asked for."""
    if not job.asked:
        return []
    where = job.unit.counted(job.asked)
    learnt = job.change.learnt if job.change else ()
    lines = [f"predicted run times of jobs that ask for {where}, on other counts"]
    if learnt:
        lines.append(f"learnt on {job.unit.several(learnt)}")
    return lines


def _sizes(prediction: PredictionTable, *, verbose: bool) -> list[str]:
    """Say which numbers the times are for and, at length, how run time goes by them."""
    shown = [f"{fmt.printable(one.name)} {_number(one.reference)}" for one in prediction.sizes]
    lines = [f"run times for {', '.join(shown)}"] if shown else []
    if verbose:
        lines += [
            f"run time goes by {_size_of(prediction, place)} (runs had "
            f"{fmt.interval(one.low, one.high, _number)})"
            for place, one in enumerate(prediction.sizes)
        ]
    return lines


def _size_of(prediction: PredictionTable, place: int) -> str:
    """Say by what of a size run time goes: a power of it, or what it has beyond a constant part."""
    term = prediction.sizes[place]
    name = fmt.printable(term.name)
    forms = prediction.surface.forms if prediction.surface else ()
    with_constant = [
        form for form in forms if form.fold == 0 and form.constant and form.constant[place]
    ]
    weight = sum(form.weight for form in with_constant)
    if weight <= _HALF:
        return f"{name} to the power {term.exponent:.2f} ± {term.error:.2f}"
    constant = sum(form.weight * form.constant[place] for form in with_constant) / weight
    return f"what {name} has beyond about {_number(float(f'{constant:.3g}'))}"


def _number(size: float) -> str:
    return size_text(f"{size:.0f}" if size.is_integer() else f"{size:.6g}")


def _template_lines(prediction: PredictionTable) -> Iterator[str]:
    """Say what of a workflow engine the application is, and what stars stand for."""
    engine, colon, process = whole_key(prediction.key).partition("/")[2].partition(":")
    if prediction.level == KeyLevel.TAG and colon and engine in ENGINE_NAMES:
        yield f"workflow engine: {engine}, process or rule: {fmt.printable(process)}"
    if "*" in prediction.label + prediction.command:
        yield "*: differs from run to run, and takes no part in what the application is"


def _wrapped(lines: Iterable[str], width: int) -> str:
    return fmt.wrapped("\n".join(lines), width)


def problem_line(problem: Problem, unit: Unit) -> str:
    """Say a problem, and the run that would help most against it."""
    return f"  {fmt.printable(problem.text)}{next_run(problem.observe, unit)}"


def next_run(observe: int | None, unit: Unit) -> str:
    """Name the run that would help most against a problem; nothing where there is none.

    >>> next_run(16, Unit.NODES)
    '; a run on 16 nodes would help most'
    """
    return f"; a run on {unit.counted(observe)} would help most" if observe else ""


def memory_lines(prediction: PredictionTable) -> list[str]:
    """Say how much memory runs may need, with the record of that; nothing where it is unknown."""
    need = prediction.need
    if need is None or not need.high:
        return []
    most = max(one.mem_bytes for one in need.high) / 2**20
    each = "a node" if prediction.unit is Unit.NODES else "the job"
    runs = fmt.count(need.predictions, "run")
    record = f", enough for {need.inside} of {runs}" if need.predictions else ""
    tasks = prediction.layout.tasks if prediction.unit is Unit.NODES else 0
    task = f" ({most / tasks:.0f} MiB for each of {tasks} tasks)" if tasks > 1 else ""
    said = f"memory that {each} may need: {most:.0f} MiB{task}{record} (with the margin)"
    names = " and ".join(fmt.printable(term.name) for term in need.terms)
    return [f"{said}; it goes by {names}" if names else said]


def use_text(use: ResourceUse) -> str:
    """Say which share of its CPUs or GPUs an application uses, with the record of that."""
    most = "at most " if use.unit is Unit.GPUS else ""
    between = ""
    if fmt.ends_differ(use.low, use.high, fmt.percent):
        between = f"nine in ten use {fmt.interval(use.low, use.high, fmt.percent)}"
    record = f"{use.inside} of {use.predictions} runs were inside the range of those before them"
    details = "; ".join(filter(None, (between, record if use.predictions else "")))
    shown = f" ({details})" if details else ""
    return f"runs use {most}{fmt.percent(use.share)} of their {use.unit.plural}{shown}"


def record_line(record: Recorded | RecordSummary, unit: Unit) -> str:
    """Describe how accurate the last predictions were; the verdict rests on them.

    >>> record_line(Recorded(False, 40, 0.03, 36), Unit.NODES)
    'the last 40 predictions on new node counts: half off by 3 % or less, 36 inside the interval'
    >>> record_line(Recorded(True, 1, 0.2, 0), Unit.NODES)
    'the last prediction on node counts that ran before: off by 20 %, outside the interval'
    """
    counts = unit.words("node counts that ran before" if record.repeated else "new node counts")
    error = fmt.percent(record.median_error)
    if record.predictions == 1:
        inside = "inside" if record.inside else "outside"
        return f"the last prediction on {counts}: off by {error}, {inside} the interval"
    return (
        f"the last {record.predictions} predictions on {counts}: half off by {error} or less, "
        f"{record.inside} inside the interval"
    )


def standing_line(row: StandingRow) -> str:
    """Say whether an application is switched off, with its realised over predicted run time."""
    what = "switched off" if row.off else "in use"
    why = "too few of its changed jobs ended as promised; " if row.broke_promises else ""
    runs = fmt.count(row.runs, "run").removeprefix("1 ")
    return (
        f"{fmt.printable(row.label)}: {what} since {fmt.clock(row.since_s)}; {why}the last {runs} "
        f"took {row.ratio:.2f} times as long as predicted (allowed: {row.low:.2f} to "
        f"{row.high:.2f})"
    )


def within(prediction: PredictionTable, largest: int | None = None) -> PredictionTable:
    """Leave out counts that the cluster does not have.

    largest: nodes of its largest partition; None: what the last refit saw of it.
    """
    nodes = prediction.unit is Unit.NODES
    if not (largest := (largest if nodes else None) or prediction.in_cluster):
        return prediction
    most = max(largest, *(one.nodes for one in prediction.observed), 1)
    end = sum(n <= most for n in prediction.nodes)
    return of_rows(within_cluster(prediction, most) if nodes else prediction, slice(end))


def shown_counts(prediction: PredictionTable, *, every: bool) -> list[int]:
    """Choose node counts by index: all, or those observed, powers of two and the ends."""
    observed = {point.nodes for point in prediction.observed}
    ends = {prediction.nodes[0], prediction.nodes[-1]} if prediction.nodes else set()
    return [
        i
        for i, nodes in enumerate(prediction.nodes)
        if every or nodes in observed or nodes in ends or nodes.bit_count() == 1
    ]


def verdict_at_entry(prediction: PredictionTable, index: int) -> str:
    """Name the verdict on one of the table's node counts."""
    return (prediction.verdicts[index] if prediction.verdicts else prediction.verdict).value


def curve_table(
    prediction: PredictionTable, energy: Energy, now_s: float, *, every: bool
) -> cols.Table:
    """One application's table; its rows are the indices of the node counts of its usual job."""
    prediction = of_usual_job(prediction)
    taken = table_amounts(energy, prediction, now_s)
    seen = {point.nodes: point for point in prediction.observed}
    median, low, high = prediction.median_s, prediction.low_s, prediction.high_s
    nodes = prediction.nodes
    over = {one.nodes for one in prediction.starts if one.unbounded}
    had = {one.nodes for one in ran_on(prediction)} | (over - {*prediction.never_had})

    def run_time(i: int) -> str:
        return f"{'over ' if nodes[i] in over else ''}{duration_text(median[i])}"

    def at_most(i: int) -> str:
        return "-" if nodes[i] in over else duration_text(high[i])

    def interval(i: int) -> str:
        return run_time(i) if nodes[i] in over else duration_range(low[i], high[i])

    def seconds(
        name: str,
        title: str,
        times: tuple[float, ...],
        worth: int = cols.ON_REQUEST,
        show: Callable[[int], str] | None = None,
    ) -> cols.Column:
        return cols.Column(
            name, title, lambda i: round(times[i], 1), cols.SECONDS, show=show, worth=worth
        )

    def amount(name: str, title: str, place: int) -> cols.Column:
        worth = 2 if any(one[place] is not None for one in taken) else cols.ON_REQUEST
        return cols.Column(name, title, lambda i: taken[i][place], cols.AMOUNT, worth=worth)

    columns = [
        cols.Column("nodes", prediction.unit.plural, lambda i: nodes[i]),
        seconds("median_s", "run time", median, cols.ALWAYS, run_time),
        seconds("low_s", "at least", low),
        seconds("high_s", "at most", high, show=at_most),
        cols.Column(
            "interval",
            f"{fmt.percent(prediction.confidence)} of runs take",
            interval,
            worth=4,
            derived=True,
        ),
        cols.Column(
            "verdict",
            "verdict",
            lambda i: verdict_at_entry(prediction, i),
            left=True,
            worth=cols.ON_REQUEST if prediction.asked else 5,
        ),
        amount("kwh", "kWh", 0),
        amount("cost", fmt.printable(energy.currency) or "cost", 1),
        amount("co2_g", "g CO2e", 2),
        cols.Column("observed", "observed", lambda i: nodes[i] in had, worth=cols.ON_REQUEST),
        cols.Column(
            "as_asked_s",
            "runs there took",
            lambda i: round(seen[nodes[i]].time_s, 1) if nodes[i] in seen else None,
            cols.SECONDS,
            worth=4 if prediction.asked else cols.ON_REQUEST,
            meaning="median run time of the jobs that asked for this count",
        ),
        cols.Column(
            "runs",
            "runs used",
            lambda i: seen[nodes[i]].repeats if nodes[i] in seen else 0,
            lambda runs: str(runs or ""),
            worth=3,
            derived=True,
        ),
    ]
    return cols.Table(columns, shown_counts(prediction, every=every))
