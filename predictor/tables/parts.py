"""Whether the runs of one identity are one problem: its table, and those of its parts.

Runs with another layout (:mod:`sacct_ingest.runs.layout`) are another curve.  So are runs with
other arguments, limits or the like, where these explain the run times
(:mod:`predictor.tables.split`).  Each part that repeats has a table of its own.  The identity's own
table is then a history of all runs, for jobs that belong to none of them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import blake2b
from math import exp, log
from typing import Any

from msgspec import structs

from predictor.application import sizes
from predictor.application.family import Family
from predictor.application.surface import Slice
from predictor.change import Change
from predictor.curves.from_runs import OtherSizes
from predictor.facts import ToLimit
from predictor.job_table import of_kind
from predictor.level.record import ENOUGH, Record, built_in
from predictor.prediction_table import Part, PredictionTable
from predictor.problems import Problem, problem
from predictor.stored_table import part_key, with_acting
from predictor.table import doubtful, verdict_at, worse
from predictor.tables import run_facts, split
from predictor.tables.build import IdentityRuns, mixture, record_of, tabulate, unfinished
from predictor.tables.kinds import kind_of_runs
from predictor.tables.learned import learned
from predictor.tables.of_family import of_family
from predictor.tables.of_node_types import SumsByType
from predictor.tables.of_other_commands import of_other_commands
from predictor.tables.samples import ended_runs, sample_of, samples_of
from predictor.tables.settings import TableSettings
from predictor.tables.split import Axis, axis_of, on_axis
from sacct_ingest.records import CURVE_LEVELS, KeyLevel
from sacct_ingest.runs.attributes import LONGEST, describe
from sacct_ingest.runs.evidence import ran_short
from sacct_ingest.runs.input_sizes import numbers_in
from sacct_ingest.runs.layout import ANY, Each, Layout, Unit, layouts_of_run, second_sizes
from sacct_ingest.runs.submission import MEMORY, JobKind
from sacct_ingest.store.rows import RunRow

#: Parts with tables of their own, at most.
MOST = 32
#: Runs of which sizes of inputs are known, from which on others may be left out for them.
_KNOWN = 10
#: Before the names of numbers that run times go by, among the attributes of a record.
_SIZED = "size: "


@dataclass(frozen=True, slots=True)
class Fitted:
    """What a refit makes of some runs: a table, where anything can be said, and their record.

    ``new`` is how many entries came to the record.
    """

    key: str
    table: PredictionTable | None
    record: Record
    new: int


def tables_of(
    identity: IdentityRuns,
    settings: TableSettings,
    *,
    sums: SumsByType | None = None,
    records: Mapping[str, Record] | None = None,
    by_model: bool = False,
) -> list[Fitted]:
    """Fit one identity: it comes first, then its parts; parameters of `tabulate`.

    Jobs are changed by tables that lean on no other user's runs: those are made beside it.

    records: what became of earlier predictions, by key.
    by_model: the runs are as a model of the application moved them: nothing else tells them apart.
    """
    level = identity.level
    starts = [start for row in identity.rows for start in row.each_start()]
    asked = (run_facts.with_asked_cpus(row) for row in starts)
    rows: Sequence[RunRow] = [row.without_added_cpus() for row in asked]
    unmoved = replace(identity, rows=rows)
    before = (records or {}).get(identity.key, Record())
    finished = ended_runs(rows)
    kind, to_limit = kind_of_runs(rows)
    # What runs until its limit goes by no size, though longer limits may go with larger ones.
    unsized = by_model or kind is JobKind.UNTIL_LIMIT
    axis, family = _axis_and_family(level, finished, before, unsized=unsized)
    if family is None and not unsized:
        rows, axis, family = _of_known_inputs(level, rows, axis, before)
        finished = ended_runs(rows)
    if family is not None:
        rows = _as_references(family, axis, rows, finished)
        finished = ended_runs(rows)
    sized = _names_of(family)
    if sized != _names_of_record(before):
        # What errors were of is no more: the record begins anew.
        records, before = {}, Record()
    names: tuple[str, ...] = ()
    if level is not KeyLevel.USER and not by_model and run_facts.owner_of(finished):
        # Attributes that distinguish the problems, but those whose numbers explain run times.
        split_before = [name for name in before.split if not name.startswith(_SIZED)]
        last = axis.last_finished(finished)
        names = split.choose(last, split_before, numbers=sized)
    groups = _grouped(axis, finished, names)
    whole = replace(identity, rows=rows)
    had = _sizes_of(starts, axis.unit)
    runs = _GroupedRuns(whole, axis.unit, names, groups, had, to_limit, sums, family, by_model)
    shown = _fitted(runs, settings, records or {})
    if level not in CURVE_LEVELS:  # no job is changed for what a user or a job name is like
        whole_table = shown[0].table
        if level is KeyLevel.NAME and family is None and whole_table is not None:
            shown[0] = replace(shown[0], table=of_other_commands(whole_table, finished))
        return shown
    alone = replace(settings, pooled=built_in())
    acting = _fitted(runs, alone, {one.key: one.record for one in shown})
    made = [_with_acting(one, other) for one, other in zip(shown, acting, strict=True)]
    if by_model or level is not KeyLevel.TAG or not run_facts.owner_of(finished):
        return made
    return _by_learning(unmoved, settings, made, records or {})


def _by_learning(
    identity: IdentityRuns,
    settings: TableSettings,
    made: list[Fitted],
    records: Mapping[str, Record],
) -> list[Fitted]:
    """Fit what `nimo lab learn` ran by its model; ``made`` without such runs."""
    whole, parts, fitted = made[0], [], []
    alone = replace(settings, backtest=replace(settings.backtest, around=()))
    for of, rows, sized in learned(ended_runs(identity.rows)):
        own = replace(identity, key=part_key(identity.key, _digest(of)), rows=rows)
        one, *_ = tables_of(own, alone, records=records, by_model=True)
        if one.table is None or whole.table is None:
            continue
        group = replace(of, key=own.key, layout=one.table.layout)
        label = f"{whole.table.label} ({_words(group)})"
        need = None if group.values else one.table.need
        # The runs are in the record of the whole.
        had = _sizes_of(identity.rows, one.table.unit)
        never = tuple(n for n in _said_of(one.table) if n not in had)
        named: dict[str, Any] = {"label": label, "need": need, "never_had": never}
        if sized is not None:
            named |= {"sizes": (sized.term,), "surface": sized.surface}
        fitted.append(_with(replace(one, new=0), **named))
        parts.append(group)
    if whole.table is None or not fitted:
        return made
    table = replace(whole.table, parts=tuple(parts), problems=())
    return [replace(whole, table=_doubted(table, parts)), *fitted]


@dataclass(frozen=True, slots=True)
class _GroupedRuns:
    """The runs of one identity, grouped, with what tables are made of besides."""

    whole: IdentityRuns
    unit: Unit
    names: tuple[str, ...]  #: attributes that they are split by
    groups: Mapping[Part, Sequence[RunRow]]
    had: tuple[int, ...]  #: sizes that they had
    to_limit: ToLimit | None  #: how many ran until their limit, of all sizes
    sums: SumsByType | None
    family: Family | None  #: where run times went by numbers: they are those of its references
    by_model: bool = False  #: they are as a model of their numbers has them
    changes: dict[str, Change] = field(default_factory=dict)  #: by the key of the runs

    def as_asked(self, name: str, own: Sequence[RunRow]) -> Sequence[RunRow]:
        """Give runs on the counts asked for, and note what a change does to them.

        What users or job names have in common is no application: of a change there is the prior.
        """
        if self.whole.level not in CURVE_LEVELS:
            self.changes[name] = run_facts.change_of((), self.unit)
            return own
        if name not in self.changes:
            sized = self.by_model or self.family is not None
            level = self.whole.level
            self.changes[name] = run_facts.change_of(own, self.unit, level, sized=sized)
        return run_facts.as_asked(own, self.changes[name], self.unit)

    def sized(self, table: PredictionTable, asked: Sequence[RunRow]) -> PredictionTable:
        """Give a table with what the family says; runs that it moved have no limit any more.

        asked: as of `of_family`.
        """
        if self.family is None:
            return table
        return replace(of_family(table, self.family, asked), to_limit=self.to_limit)


def _axis_and_family(
    level: KeyLevel, finished: Sequence[RunRow], before: Record, *, unsized: bool
) -> tuple[Axis, Family | None]:
    """Choose what is counted, and the numbers that run times go by.

    What a job name or a user has in common is counted whatever the layouts: in nodes, unless all
    runs of a name have a size in the unit that its curves would have.

    unsized: run times go by no number.
    """
    axis = axis_of(finished)
    family = None if unsized else _family(level, axis, finished, before)
    if level in CURVE_LEVELS or (family is not None and axis.unit is not Unit.NODES):
        return axis, family
    of_name = level is KeyLevel.NAME and all(map(axis.unit.size_of, finished))
    one_kind = axis.unit is not Unit.CPUS or not any(row.gpus for row in finished)
    any_layout = Axis(axis.unit if of_name and one_kind else Unit.NODES, {})
    return any_layout, None if unsized else _family(level, any_layout, finished, before)


def _family(
    level: KeyLevel, axis: Axis, finished: Sequence[RunRow], before: Record
) -> Family | None:
    """Find the numbers that one user's run times go by, and how.

    The keys of scripts and command lines have their arguments in them: there others may differ.
    """
    if level is KeyLevel.USER or not run_facts.owner_of(finished):
        return None
    if level in (KeyLevel.SCRIPT, KeyLevel.LINE) and not any(map(_numbered, finished)):
        return None
    last = axis.last_finished(finished)
    if len(last) < sizes.FEWEST or not any(row.numbers for row, _ in last):
        return None
    named = _names_of_record(before)
    split_by = [name for name in before.split if not name.startswith(_SIZED)]
    # With few runs a number may replace a split that a permutation test made.
    if not split_by or len(last) < split.FEW:
        split_by = list(split.choose(last, few=False))
    believed = split.predicted(last, split_by)
    runs = [sample_of(row, size=size, split_by=split_by) for row, (_, size) in last]
    return sizes.choose(runs, believed, [*named, *split_by])


def _of_known_inputs(
    level: KeyLevel, rows: Sequence[RunRow], axis: Axis, before: Record
) -> tuple[Sequence[RunRow], Axis, Family | None]:
    """Give the runs of which sizes of inputs are known, and how run time goes by these.

    Of others nothing is known of what it goes by: those from before anybody looked, and those of
    which a client looked too late.  Where it does not go by sizes of inputs all runs stay.
    """
    known = [row for row in rows if row.inputs]
    if not _KNOWN <= len(known) < len(rows):
        return rows, axis, None
    own, family = _axis_and_family(level, ended_runs(known), before, unsized=False)
    inputs = {name for row in known for name in numbers_in(row.inputs)}
    if not inputs & _names_of(family):
        return rows, axis, None
    return known, own, family


def _numbered(row: RunRow) -> bool:
    """Whether a run may have numbers besides its arguments."""
    return row.submission.numbered or bool(row.inputs) or row.array_task_id is not None


def _as_references(
    family: Family, axis: Axis, rows: Sequence[RunRow], finished: Sequence[RunRow]
) -> list[RunRow]:
    """Give runs as if their numbers were the references; their limits say nothing then.

    Those of the family are moved by what the others say.
    """
    last = axis.last_finished(finished)[-len(family.as_references) :]
    pairs = zip(last, family.as_references, strict=True)
    logs = {id(row): log_s for (row, _), log_s in pairs}
    here = Slice(family.surface, [term.reference for term in family.terms])
    made = []
    for row in rows:
        log_s, size = logs.get(id(row)), axis.unit.size_of(row)
        if log_s is None and row.elapsed_s > 0 and size:
            numbers = row.numbers
            own = [numbers.get(term.name, term.reference) for term in family.terms]
            there = Slice(family.surface, own)
            log_s = log(row.elapsed_s) - there.logs(size)[0] + here.logs(size)[0]
        made.append(row if log_s is None else replace(row, limit_s=None).lasting(exp(log_s)))
    return made


def _names_of(family: Family | None) -> set[str]:
    return {term.name for term in family.terms} if family else set()


def _names_of_record(record: Record) -> set[str]:
    return {name.removeprefix(_SIZED) for name in record.split if name.startswith(_SIZED)}


def _with_acting(shown: Fitted, acting: Fitted) -> Fitted:
    if shown.table is None or acting.table is None:
        return shown
    evident = shown.table.owner and len(shown.record.entries) >= ENOUGH
    if evident and not _as_sure(shown.table, acting.table):
        # Other users' runs make what a user's own ones bear out surer, and never less sure.
        return replace(shown, table=acting.table)
    return replace(shown, table=with_acting(shown.table, acting.table))


def _as_sure(shown: PredictionTable, own: PredictionTable) -> bool:
    """Whether a table is as sure on every size as that of its owner's runs alone."""
    if shown.nodes != own.nodes:
        return False
    rows = zip(shown.nodes, shown.low_s, shown.high_s, own.low_s, own.high_s, strict=True)
    return all(
        high * own_low <= own_high * low
        and worse(verdict_at(shown, n), verdict_at(own, n)) is verdict_at(own, n)
        for n, low, high, own_low, own_high in rows
    )


def _sizes_of(rows: Iterable[RunRow], unit: Unit) -> tuple[int, ...]:
    """Give the sizes that runs had, as far as these say a run time; rising."""
    sizes_had = {unit.size_of(row) for row in ended_runs(rows)}
    return tuple(sorted(sizes_had - {0}))


def _said_of(table: PredictionTable) -> list[int]:
    """Give the sizes that a table has observations of."""
    tried = table.change.learnt if table.change else ()
    points, starts = ([one.nodes for one in said] for said in (table.observed, table.starts))
    return sorted({*points, *starts, *tried})


def _changing(table: PredictionTable, change: Change | None) -> PredictionTable:
    """Give a table with what a change does; where that was learnt, it misses no curve."""
    if change is None:
        return replace(table, change=None)
    problems = [
        _of_moved_runs(one, change)
        for one in table.problems
        if not (change.learnt and one.name == "no_curve")
    ]
    return replace(table, change=change, problems=tuple(problems))


def _of_moved_runs(one: Problem, change: Change) -> Problem:
    """Tell how many runs had another count than asked for, where they are too few for a curve."""
    if one.name != "no_curve" or not change.moved:
        return one
    runs = "1 run" if change.moved == 1 else f"{change.moved} runs"
    return problem("no_curve:moved", one.observe, runs=runs)


def _fitted(runs: _GroupedRuns, settings: TableSettings, old: Mapping[str, Record]) -> list[Fitted]:
    key, rows = runs.whole.key, runs.whole.rows
    unit, names, groups = runs.unit, runs.names, runs.groups
    family = runs.family
    tagged = run_facts.applications_of(rows)
    settings = replace(settings, sized=family is not None)
    noted = (*names, *(f"{_SIZED}{term.name}" for term in (family.terms if family else ())))

    def fitted(
        name: str, own: Sequence[RunRow], make: Callable[..., PredictionTable | None]
    ) -> Fitted:
        had = own
        before, own = old.get(name, Record()), on_axis(own, unit)
        asked = runs.as_asked(name, own)
        record = record_of(runs.whole.level, asked, settings, before)
        one = replace(runs.whole, key=name, rows=asked, had=own)
        table = make(one, settings, record=record)
        if table is not None:
            changing = _changing(table, runs.changes.get(name))
            table = run_facts.by_types(changing, own, unit, runs.whole.level)
            table = runs.sized(table, asked)
        if table is None and name == key:
            table = unfinished(runs.whole)
        if table is not None and unit is not Unit.NODES:
            problems = tuple(replace(one, text=unit.words(one.text)) for one in table.problems)
            table = replace(table, unit=unit, problems=problems)
        if table is not None:
            never_had = tuple(n for n in _said_of(table) if n not in runs.had)
            one_cpu = _on_one_cpu(had)
            table = replace(table, one_cpu=one_cpu, never_had=never_had, tagged=tagged)
        # Entries of the record that are new.
        new = sum(one.end_s > before.until_s for one in record.entries if record is not before)
        return Fitted(name, table, record, new)

    if len(groups) < 2:
        layout = next(iter(groups)).layout if groups else _any_layout(rows, unit)
        one = fitted(key, rows, partial(tabulate, sums=runs.sums if unit is Unit.NODES else None))
        return [_with(_split(one, noted), layout=layout)]
    made = []
    for group, own in list(groups.items())[:MOST]:
        finished = {id(row) for row in own}
        # With those that ended for lack of memory, and say no run time.
        every = [
            row for row in rows if id(row) in finished or (ran_short(row) and _is_in(row, group))
        ]
        others = _others(group, groups, unit)
        make = partial(tabulate, others=others)
        part = fitted(part_key(key, _digest(group)), every, make)
        if MEMORY in names:  # the requested memory distinguishes problems: it stays
            part = _with(part, need=None)
        label = f"{part.table.label} ({_words(group)})" if part.table else ""
        made.append((_with(part, layout=group.layout, label=label), group))
    whole = _split(fitted(key, rows, mixture), noted)
    made = [(_of_kind(part, whole.table), group) for part, group in made]
    parts = tuple(replace(group, key=one.key) for one, group in made if one.table)
    if whole.table is not None:
        whole = replace(whole, table=_doubted(replace(whole.table, parts=parts), list(groups)))
    return [whole, *(one for one, _ in made)]


def _of_kind(part: Fitted, whole: PredictionTable | None) -> Fitted:
    """Give a part the kind of all runs: one limit does not show that times follow it."""
    if part.table is None or whole is None or whole.kind is JobKind.WORK:
        return part
    table = replace(part.table, to_limit=whole.to_limit)
    return replace(part, table=of_kind(table, whole.kind))


def _any_layout(rows: Sequence[RunRow], unit: Unit) -> Layout:
    """Layout of runs that are counted together however they were laid out."""
    each = Each.NODE if unit is Unit.NODES else Each.ANY
    return Layout(gpus=None if any(row.gpus for row in rows) else 0, each=each)


def _on_one_cpu(rows: Sequence[RunRow]) -> bool:
    return all(row.nodes == 1 and row.cpus == 1 and not row.gpus for row in rows)


def _words(group: Part) -> str:
    values = f"with {describe(dict(group.values))}" if group.values else ""
    return "; ".join(filter(None, (str(group.layout), values)))


def _others(group: Part, groups: Mapping[Part, Sequence[RunRow]], unit: Unit) -> OtherSizes | None:
    """Give the runs of the same problem with other second sizes; None: there are none."""
    alike = [one for one in groups if one.values == group.values]
    sizes = second_sizes([one.layout for one in alike])
    if not sizes:
        return None
    rest = [one for one in alike if one is not group]
    runs = tuple((sizes[one.layout], tuple(samples_of(on_axis(groups[one], unit)))) for one in rest)
    return OtherSizes(sizes[group.layout], runs, in_all=unit is not Unit.NODES)


def _grouped(
    axis: Axis, rows: Sequence[RunRow], names: Sequence[str]
) -> Mapping[Part, Sequence[RunRow]]:
    """Group runs by layout and by the values of attributes, the largest group first.

    Parts have no key yet.
    """
    if not names:
        return {Part("", layout): own for layout, own in axis.groups.items()}
    groups: dict[Part, list[RunRow]] = {}
    for layout, own in (axis.groups or {ANY: rows}).items():
        for row in own:
            values = row.attributes
            named = tuple((name, values.get(name, "")) for name in names)
            groups.setdefault(Part("", layout, named), []).append(row)
    return dict(sorted(groups.items(), key=lambda one: -len(one[1])))


def _is_in(row: RunRow, group: Part) -> bool:
    values = row.attributes if group.values else {}
    alike = all(values.get(name, "") == value for name, value in group.values)
    return alike and any(group.layout.matches(one) for one in layouts_of_run(row))


def _split(fitted: Fitted, names: tuple[str, ...]) -> Fitted:
    """Note in a record what its runs are split by, for the next fit."""
    return replace(fitted, record=structs.replace(fitted.record, split=names))


def _with(fitted: Fitted, **changes: Any) -> Fitted:
    table = fitted.table
    return fitted if table is None else replace(fitted, table=replace(table, **changes))


def _doubted(table: PredictionTable, groups: Sequence[Part]) -> PredictionTable:
    """Table of runs with several layouts, or of several problems: doubtful at best."""
    sizes = list(dict.fromkeys(group.layout for group in groups))
    names = [name[:LONGEST] for name, _ in groups[0].values]
    problems = []
    if names:
        listed = _listed(describe(dict(group.values)) for group in groups)
        problems.append(problem("several_problems", names=" and ".join(names), listed=listed))
    if len(sizes) > 1:
        problems.append(problem("layouts", number=len(sizes), listed=_listed(map(str, sizes))))
    return doubtful(table, problems)


def _listed(texts: Iterable[str]) -> str:
    each = list(dict.fromkeys(texts))
    return "; ".join([*each[:3], *(["…"] if len(each) > 3 else [])])


def _digest(group: Part) -> str:
    text = "\0".join((str(group.layout), *(f"{name}={value}" for name, value in group.values)))
    return blake2b(text.encode(), digest_size=4).hexdigest()
