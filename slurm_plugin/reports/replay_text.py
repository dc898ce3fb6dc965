"""Results of a replay, in words and tables."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from slurm_plugin.config import Policy
from slurm_plugin.formatting import count, duration, percent
from slurm_plugin.replay.measures import ReplayComparison
from slurm_plugin.replay.policy_search import WORTH, Result
from slurm_plugin.reports import html

#: Name of a column, how it is written, in which unit sacct's users expect it.
_COLUMNS = (
    "load",
    "price",
    "guard",
    "changed",
    "response",
    "wait",
    "slowdown",
    "utilisation",
    "worse off",
)


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


def render(report: ReplayReport) -> RenderableType:
    """Lay the report out for a terminal."""
    title = Text(title_of(report), style="bold")
    parts: list[RenderableType] = [title, _table(report), _groups(report)]
    parts.append(Text(f"\n{verdict(report)}", style="bold"))
    parts += [Text(f"- {line}") for line in report.assumptions]
    return Group(*parts)


def title_of(report: ReplayReport) -> str:
    """Describe the replayed jobs in one line."""
    first = report.results[0]
    return (
        f"{count(first.jobs, 'job')} over {report.days:.0f} days on {count(report.nodes, 'node')} "
        f"at load {report.load:.2f}, {first.moldable_jobs} of them moldable ({report.source})"
    )


def tables(report: ReplayReport) -> list[html.Table]:
    """Make tables for a page: all settings, and moldable and rigid jobs apart."""
    settings = html.Table(
        name="settings",
        caption="Results of each setting, compared with the jobs' own requests",
        columns=tuple(html.TableColumn(key=html.anchor(name), title=name) for name in _COLUMNS),
        rows=[_cells(r) for r in report.results],
        note="Response: mean time from submission to end, divided by that with the jobs' own "
        "requests; below 1 is better. Two values with 'to': with the jobs' own requests, and "
        "under the policy.",
    )
    groups = html.Table(
        name="groups",
        caption=_groups_title(report),
        columns=(
            html.TableColumn(key="jobs_were", title="jobs", left=True),
            html.TableColumn(key="jobs", title="number"),
            html.TableColumn(key="came", title="result", left=True),
        ),
        rows=list(_group_rows(report)),
    )
    return [settings, groups]


def verdict(report: ReplayReport) -> str:
    """Say whether switching on would help, and with which settings."""
    suggestion = report.suggested
    if suggestion is None:
        best = min(r.everybody.response_ratio for r in report.results)
        return (
            f"Switching NIMO on would not help here: the mean response would be {best:.2f} times "
            "its "
            f"present value at best; it should be below {1 - WORTH:.2f}."
        )
    policy, everybody = suggestion.setting.policy, suggestion.everybody
    same = policy == report.present
    settings = f"price {policy.price:g} and guard_ratio {policy.guard_ratio:g}"
    loads = {result.load for result in report.results}
    at_load = f" at load {suggestion.load:.2f}" if len(loads) > 1 else ""
    helps = (
        f"Switching NIMO on would help: the mean response would be {everybody.response_ratio:.2f} "
        f"times its present value{at_load}, with {'the present ' if same else ''}{settings}. "
        f"Of all jobs {_worse(everybody)}."
    )
    same_settings = [r for r in report.results if r.setting.policy == policy]
    return f"{helps} {_warning(same_settings or [suggestion])}".rstrip()


def _warning(results: Sequence[Result]) -> str:
    """Warn of a setting that others pay for, at whichever load; empty where they do not."""
    hurting = [one for one in results if one.hurts_bystanders]
    if not hurting:
        return ""
    worst = max(hurting, key=lambda one: one.rigid.slowdown[1] / one.rigid.slowdown[0])
    before, after = worst.rigid.slowdown
    at_load = f" at load {worst.load:.2f}" if len({one.load for one in results}) > 1 else ""
    return (
        f"But rigid jobs would be slower{at_load}: their mean response would be "
        f"{worst.rigid.response_ratio:.2f} times its present value, their slowdown {after:.1f} "
        f"instead of {before:.1f}."
    )


def as_json(report: ReplayReport) -> dict[str, Any]:
    """Make plain data of the report."""
    made = asdict(report)
    for result in (*made["results"], made["suggested"] or {}):
        if result:
            result["reasons"] = {reason.value: n for reason, n in result["reasons"].items()}
            result["setting"]["policy"] = _plain(result["setting"]["policy"])
    return made | {"present": _plain(made["present"]), "verdict": verdict(report)}


def parsable(report: ReplayReport) -> Iterator[str]:
    """Lines of the table with ``|`` between the fields, as ``sacct -P``."""
    yield (
        "Load|Price|Guard|Moved|ResponseRatio|RequestedWait|Wait|RequestedSlowdown|Slowdown|"
        "Utilisation|WorseOff|WorseBy"
    )
    for r in report.results:
        policy, all_ = r.setting.policy, r.everybody
        cells = (
            *(r.load, policy.price, policy.guard_ratio, r.moved, all_.response_ratio),
            *(r.requested.wait_s, r.measures.wait_s, r.requested.slowdown, r.measures.slowdown),
            *(r.utilisation[1], all_.worse_off, all_.worse_by),
        )
        yield "|".join(f"{cell:.5g}" for cell in cells)


def _plain(policy: Policy) -> Mapping[str, float]:
    return {name: getattr(policy, name) for name in policy.__struct_fields__}


def _table(report: ReplayReport) -> RenderableType:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in _COLUMNS:
        table.add_column(name, justify="right")
    for r in report.results:
        style = "bold" if r is report.suggested else ""
        table.add_row(*_cells(r), style=style)
    return table


def _cells(r: Result) -> Sequence[str]:
    policy, all_ = r.setting.policy, r.everybody
    before, after = r.utilisation
    return (
        f"{r.load:.2f}",
        f"{policy.price:g}",
        f"{policy.guard_ratio:g}",
        percent(r.moved),
        f"{all_.response_ratio:.2f}",
        f"{duration(r.requested.wait_s)} to {duration(r.measures.wait_s)}",
        f"{r.requested.slowdown:.1f} to {r.measures.slowdown:.1f}",
        f"{percent(before)} to {percent(after)}",
        f"{percent(all_.worse_off)} by {all_.worse_by:.1f}x",
    )


def _groups(report: ReplayReport) -> RenderableType:
    grid = Table.grid(padding=(0, 2))
    for row in _group_rows(report):
        grid.add_row(*row)
    return Group(Text(_groups_title(report)), grid)


def _groups_title(report: ReplayReport) -> str:
    return f"Moldable and rigid jobs, with {_in_short(_chosen(report))}"


def _group_rows(report: ReplayReport) -> Iterator[Sequence[str]]:
    """Moldable and rigid jobs apart, for the setting that matters most."""
    chosen = _chosen(report)
    for name, jobs, comparison in (
        ("moldable jobs", chosen.moldable_jobs, chosen.moldable),
        ("rigid jobs", chosen.jobs - chosen.moldable_jobs, chosen.rigid),
    ):
        before, after = comparison.slowdown
        text = (
            f"mean response {comparison.response_ratio:.2f} times that of the requests, slowdown "
            f"{before:.1f} to {after:.1f}; {_worse(comparison)}"
        )
        yield name, str(jobs), text
    yield from _aside(chosen)


def _aside(chosen: Result) -> Iterator[Sequence[str]]:
    """Say what chance alone does to the rigid jobs, and how often the guard held."""
    if chosen.by_chance and chosen.moldable_jobs < chosen.jobs:
        slowdowns = [one.slowdown[1] for one in chosen.by_chance]
        worse = max(one.much_worse for one in chosen.by_chance)
        text = (
            f"as asked, with every tenth job two per cent longer: slowdown {min(slowdowns):.1f} to "
            f"{max(slowdowns):.1f}, up to {percent(worse, 1)} take more than twice as long"
        )
        yield "rigid jobs, by chance", "", text
    if chosen.moved:
        text = (
            f"{percent(chosen.guard_held)} of the moved jobs ended within the guard, by what came"
        )
        yield "guard", "", text


def _chosen(report: ReplayReport) -> Result:
    return report.suggested or report.results[0]


def _in_short(result: Result) -> str:
    policy = result.setting.policy
    return f"price {policy.price:g}, guard {policy.guard_ratio:g} at load {result.load:.2f}"


def _worse(comparison: ReplayComparison) -> str:
    return (
        f"{percent(comparison.worse_off, 1)} take longer (half of them {comparison.worse_by:.1f} "
        "times "
        f"as long or more), {percent(comparison.much_worse, 1)} more than twice as long, "
        f"{percent(comparison.much_better, 1)} less than half as long"
    )
