"""Results of a replay, in words and tables."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from sacct_ingest.text.durations import duration_text
from slurm_plugin.config.setting_types import Bystanders
from slurm_plugin.config.settings import Policy
from slurm_plugin.evaluation.effects import Gain
from slurm_plugin.replay.measures import ReplayComparison
from slurm_plugin.replay.what_if import WORTH, Result
from slurm_plugin.reports import chart
from slurm_plugin.reports.chart_marks import Chart
from slurm_plugin.reports.headline import proven_lines
from slurm_plugin.text import table_columns as cols
from slurm_plugin.text.formatting import beside, count, interval, percent, wrapped
from slurm_plugin.text.streams import Heading

#: More rigid jobs than this, beyond those of chance, that take twice as long are worth a sentence.
UNLUCKY = 0.01


@dataclass(frozen=True, slots=True)
class ReplayReport:
    """The results of a batch of replays."""

    source: str
    days: float
    nodes: int
    load: float  #: of the history as it was, a share of these nodes
    assumptions: tuple[str, ...]
    results: tuple[Result, ...]
    present: Policy
    suggested: Result | None
    #: what ``opt_in.proven: on`` would give, with the present settings
    proven: Gain = field(default_factory=Gain)


def render(
    report: ReplayReport, options: cols.TableOptions | None = None, *, width: int = cols.WIDTH
) -> Iterator[str]:
    """Give the parts of the report for a terminal.

    options: columns, order and titles of the table of settings that the user asks for.
    width: columns of the terminal.
    Raises NoColumn: the options name a column that there is not.
    """
    settings = setting_table(report, report.suggested).text(options, width=width)
    yield Heading(wrapped(title_of(report), width))
    yield f"\n{settings}\n"
    yield wrapped(_groups_title(report), width)
    rows = list(_group_rows(report))
    wide = max(len(name) for name, _, _ in rows) + 2
    most = max(len(jobs) for _, jobs, _ in rows)
    yield beside([(f"{name:{wide}}{jobs:{most}}", text) for name, jobs, text in rows], width)
    yield Heading(wrapped(f"\n{verdict(report)}", width))
    yield from (wrapped(f"\n{line}", width) for line in proven_lines(report.proven))
    yield from (wrapped(f"- {line}", width) for line in report.assumptions)


def title_of(report: ReplayReport) -> str:
    """Describe the replayed jobs in one line."""
    first = report.results[0]
    return (
        f"{count(first.jobs, 'job')} over {duration_text(86_400 * report.days)} on "
        f"{count(report.nodes, 'node')} "
        f"at load {report.load:.2f}, {first.moldable_jobs} of them moldable ({report.source})"
    )


def tables(report: ReplayReport) -> list[cols.Table]:
    """Make tables for a page: all settings, and moldable and rigid jobs apart."""
    settings = setting_table(report)
    shown = [replace(one, left=False) for one in settings.columns if one.worth != cols.ON_REQUEST]
    columns = [
        cols.Column("jobs_were", "jobs", lambda row: row[0], left=True),
        cols.Column("jobs", "number", lambda row: row[1]),
        cols.Column("came", "result", lambda row: row[2], left=True),
    ]
    groups = cols.Table(columns, list(_group_rows(report)), "groups", _groups_title(report))
    return [replace(settings, columns=shown), groups]


def benefit_and_harm(report: ReplayReport) -> Chart:
    """Draw each setting by what all jobs gain and by how many rigid jobs take twice as long."""

    def look(one: Result) -> str:
        if report.suggested and one.setting == report.suggested.setting:
            return "second"
        return "change" if one.setting.policy == report.present else "run"

    order = ("run", "change", "second")
    points = [
        (one.rigid.much_worse, 1 - one.everybody.response_ratio, look(one))
        for one in sorted(report.results, key=lambda one: order.index(look(one)))
    ]
    return chart.scatter(
        "Benefit against harm",
        points,
        across="rigid jobs that take twice as long",
        up="mean response shorter by",
        names={"run": "a setting", "change": "the present one", "second": "the suggested one"},
    )


def verdict(report: ReplayReport) -> str:
    """Say whether switching on would help, and with which settings."""
    suggestion = report.suggested
    if suggestion is None:
        best = min(r.everybody.response_ratio for r in report.results)
        present = [r for r in report.results if r.setting.policy == report.present]
        return (
            f"Switching NIMO on would not help here: the mean response would be {best:.2f} times "
            f"its present value at best; it should be below {1 - WORTH:.2f}. "
            f"{_bystanders(present or report.results)}"
        ).rstrip()
    policy = suggestion.setting.policy
    everybody = suggestion.everybody
    same = policy == report.present
    settings = f"price {policy.price:g} and guard_ratio {policy.guard_ratio:g}"
    if policy.bystanders is Bystanders.EACH:
        settings += ", sparing each waiting job"
    loads = {result.load for result in report.results}
    at_load = f" at load {suggestion.load:.2f}" if len(loads) > 1 else ""
    helps = (
        f"Switching NIMO on would help: the mean response would be {everybody.response_ratio:.2f} "
        f"times its present value{at_load}, with {'the present ' if same else ''}{settings}. "
        f"Of all jobs {_worse(everybody)}."
    )
    same_settings = [r for r in report.results if r.setting.policy == policy]
    others = _bystanders(same_settings or [suggestion])
    return " ".join(filter(None, (helps, others, _spared(report, same_settings))))


def _spared(report: ReplayReport, results: Sequence[Result]) -> str:
    """Say what ``bystanders: each`` would give, where that was replayed; empty if not."""
    other = [
        one
        for one in report.results
        if one.setting.policy.bystanders is Bystanders.EACH
        and one.load in {result.load for result in results}
    ]
    if not other or results[0].setting.policy.bystanders is Bystanders.EACH:
        return ""
    worst = max(other, key=lambda one: one.rigid.much_worse)
    least = min(one.everybody.response_ratio for one in other)
    most = max(one.everybody.response_ratio for one in other)
    means = interval(least, most, "{:.2f}".format)
    return (
        f"Sparing each waiting job it would be {percent(worst.rigid.much_worse, 1)} of them at "
        f"most, and the mean response {means} times its present value."
    )


def _bystanders(results: Sequence[Result]) -> str:
    """Say what rigid jobs pay under one setting at each load; empty where they pay nothing."""
    several = len({one.load for one in results}) > 1
    sentences = (_slower(results, several=several), _unlucky(results, several=several))
    return " ".join(filter(None, sentences))


def _slower(results: Sequence[Result], *, several: bool) -> str:
    """Warn where rigid jobs are slower on average than chance makes them."""
    hurting = [one for one in results if one.hurts_bystanders]
    if not hurting:
        return ""
    worst = max(hurting, key=lambda one: one.rigid.slowdown[1] / one.rigid.slowdown[0])
    before, after = worst.rigid.slowdown
    where = " and ".join(f"{one.load:.2f}" for one in hurting)
    at_load = f" at load {where}" if several else ""
    at_worst = f", at {worst.load:.2f}" if len(hurting) > 1 else ""
    return (
        f"But rigid jobs would be slower{at_load}: their mean response would be "
        f"{worst.rigid.response_ratio:.2f} times its present value{at_worst}, their slowdown "
        f"{after:.2f} instead of {before:.2f}."
    )


def _unlucky(results: Sequence[Result], *, several: bool) -> str:
    """Say how many single rigid jobs take far longer, where that is more than chance does."""
    worst = max(results, key=lambda one: one.rigid.much_worse - one.much_worse_by_chance)
    share = worst.rigid.much_worse
    chance = worst.much_worse_by_chance
    if share - chance <= UNLUCKY:
        return ""
    at_load = f" at load {worst.load:.2f}" if several else ""
    return (
        f"Of the rigid jobs {percent(share, 1)} would take more than twice as long{at_load} "
        f"({percent(chance, 1)} by chance alone), and {percent(worst.rigid.much_better, 1)} less "
        "than half as long."
    )


def as_json(report: ReplayReport) -> dict[str, Any]:
    """Make plain data of the report."""
    made = asdict(report)
    for result in (*made["results"], made["suggested"] or {}):
        if result:
            result["reasons"] = {reason.value: n for reason, n in result["reasons"].items()}
            result["setting"]["policy"] = _plain(result["setting"]["policy"])
    return made | {"present": _plain(made["present"]), "verdict": verdict(report)}


def setting_table(report: ReplayReport, suggested: Result | None = None) -> cols.Table:
    """Table of settings, a row for each result of a replay."""
    return cols.Table(
        setting_columns(suggested),
        report.results,
        "settings",
        "Results of each setting, compared with the jobs' own requests",
        note="Response: mean time from submission to end, divided by that with the jobs' own "
        "requests; below 1 is better. Two values with 'to': with the jobs' own requests, and "
        "under the policy.",
    )


def setting_columns(suggested: Result | None = None) -> list[cols.Column]:
    """Columns of settings.

    Two values with "to" are those of the requests and of the policy; ``-P`` has them apart.
    """

    def raw(name: str, get: Callable[[Result], float]) -> cols.Column:
        return cols.Column(name, name.replace("_", " "), get, worth=cols.ON_REQUEST)

    def pair(
        name: str,
        get: Callable[[Result], tuple[float, float]],
        as_text: Callable[[float], str],
        worth: int,
    ) -> tuple[cols.Column, cols.Column]:
        """Columns of the value under the policy, and of both, sorted by that."""

        def both(r: Result) -> str:
            return interval(*get(r), as_text)

        def after(r: Result) -> float:
            return get(r)[1]

        many = cols.Column(f"{name}s", name, both, order=after, worth=worth, derived=True)
        return raw(name, after), many

    def slowdowns(r: Result) -> tuple[float, float]:
        return r.requested.slowdown, r.measures.slowdown

    arrow = cols.ALWAYS if suggested else cols.ON_REQUEST
    two = "{:.2f}".format
    return [
        cols.Column(
            "suggested",
            "",
            lambda r: cols.MARK if r is suggested else "",
            left=True,
            worth=arrow,
            derived=True,
            meaning="mark of the suggested setting",
        ),
        cols.Column("load", "load", as_text=two),
        cols.Column("price", "price", lambda r: r.setting.policy.price, "{:g}".format),
        cols.Column("guard", "guard", lambda r: r.setting.policy.guard_ratio, "{:g}".format),
        cols.Column(
            "bystanders",
            "bystanders",
            lambda r: str(r.setting.policy.bystanders),
            left=True,
            worth=2,
        ),
        cols.Column("moved", "changed", as_text=cols.SHARE, worth=7),
        cols.Column("response_ratio", "response", lambda r: r.everybody.response_ratio, two),
        raw("requested_wait", lambda r: r.requested.wait_s),
        *pair("wait", lambda r: (r.requested.wait_s, r.measures.wait_s), duration_text, 6),
        raw("requested_slowdown", lambda r: r.requested.slowdown),
        *pair("slowdown", slowdowns, "{:.1f}".format, 5),
        *pair("utilisation", lambda r: r.utilisation, percent, 1),
        raw("worse_off", lambda r: r.everybody.worse_off),
        raw("worse_by", lambda r: r.everybody.worse_by),
        cols.Column(
            "worse",
            "worse off",
            lambda r: f"{percent(r.everybody.worse_off)} by {r.everybody.worse_by:.1f}x",
            worth=8,
            derived=True,
        ),
    ]


def _plain(policy: Policy) -> Mapping[str, float | str]:
    return {name: getattr(policy, name) for name in policy.__struct_fields__}


def _groups_title(report: ReplayReport) -> str:
    chosen = _chosen(report)
    policy = chosen.setting.policy
    return (
        f"Moldable and rigid jobs, with price {policy.price:g}, guard {policy.guard_ratio:g} at "
        f"load {chosen.load:.2f}"
    )


def _group_rows(report: ReplayReport) -> Iterator[tuple[str, str, str]]:
    """Moldable and rigid jobs apart, for the setting that matters most."""
    chosen = _chosen(report)
    for name, jobs, comparison in (
        ("moldable jobs", chosen.moldable_jobs, chosen.moldable),
        ("rigid jobs", chosen.jobs - chosen.moldable_jobs, chosen.rigid),
    ):
        before, after = comparison.slowdown
        text = (
            f"mean response {comparison.response_ratio:.2f} times that of the requests, slowdown "
            f"{interval(before, after, '{:.1f}'.format)}; {_worse(comparison)}"
        )
        yield name, str(jobs), text
    # What chance alone does to the rigid jobs, and how often the guard held.
    if chosen.by_chance and chosen.moldable_jobs < chosen.jobs:
        slowdowns = [one.slowdown[1] for one in chosen.by_chance]
        worse = max(one.much_worse for one in chosen.by_chance)
        between = interval(min(slowdowns), max(slowdowns), "{:.1f}".format)
        text = (
            f"as asked, with every tenth job two per cent longer: slowdown {between}, "
            f"up to {percent(worse, 1)} take more than twice as long"
        )
        yield "rigid jobs, by chance", "", text
    if chosen.moved:
        held = percent(chosen.guard_held)
        yield "guard", "", f"{held} of the moved jobs ended within the guard, by what came"


def _chosen(report: ReplayReport) -> Result:
    return report.suggested or report.results[0]


def _worse(comparison: ReplayComparison) -> str:
    return (
        f"{percent(comparison.worse_off, 1)} take longer (half of them {comparison.worse_by:.1f} "
        f"times as long or more), {percent(comparison.much_worse, 1)} more than twice as long, "
        f"{percent(comparison.much_better, 1)} less than half as long"
    )
