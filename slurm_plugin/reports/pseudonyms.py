"""A report without names: the same pseudonym for the same name, within one report."""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from slurm_plugin.evaluation.diagnoses import JobDiagnosis
from slurm_plugin.evaluation.job_outcomes import JobOutcome
from slurm_plugin.evaluation.outcomes import OutcomeReport

_Row = TypeVar("_Row")
#: What names a selection may hold, and what stands for them.
_SELECTED = {"user": "user", "account": "account", "application": "application"}
#: Texts of problems that would name arguments, folders or jobs, without them.
_TEXTS = {
    "several_problems": "several problems: run times differ by attributes of the jobs",
    "not_one_problem": "several problems: runs on the same node count differ too much; a tag in "
    "the script, with another word for each input, separates them",
}


class Pseudonyms:
    """Numbered names, in the order in which they are asked for."""

    def __init__(self) -> None:
        self._given: dict[tuple[str, str], str] = {}
        self._counts: dict[str, int] = {}

    def of(self, kind: str, name: str) -> str:
        """Give the pseudonym of a name.

        >>> names = Pseudonyms()
        >>> names.of("user", "ada"), names.of("user", "bob"), names.of("user", "ada")
        ('user-1', 'user-2', 'user-1')
        """
        if (kind, name) not in self._given:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            self._given[kind, name] = f"{kind}-{self._counts[kind]}"
        return self._given[kind, name]


def anonymous(report: OutcomeReport) -> OutcomeReport:
    """Replace the names of users, accounts and applications; partitions and clusters stay."""
    names = Pseudonyms()

    def application(row: _Row) -> _Row:
        named = names.of("application", row.application)  # type: ignore[attr-defined]
        return replace(row, application=named)  # type: ignore[type-var]

    def problem(row: JobDiagnosis) -> JobDiagnosis:
        # Arguments, folders and job names stand in some of these texts.
        return replace(application(row), text=_TEXTS.get(row.problem, row.text))

    def job(row: JobOutcome) -> JobOutcome:
        return replace(application(row), user=names.of("user", row.user))

    def each(rows: tuple[_Row, ...], change: Callable[[_Row], _Row]) -> tuple[_Row, ...]:
        return tuple(map(change, rows))

    return replace(
        report,
        anonymous=True,
        applications=each(report.applications, application),
        problems=each(report.problems, problem),
        records=each(report.records, application),
        drift=each(report.drift, application),
        stopped=each(report.stopped, job),
        jobs=each(report.jobs, job),
        waste=each(
            report.waste, lambda row: replace(application(row), user=names.of("user", row.user))
        ),
        arrays=each(
            report.arrays,
            lambda row: replace(
                row,
                name=names.of("application", row.name),
                user=names.of("user", row.user),
                account=names.of("account", row.account),
            ),
        ),
        unused=each(
            report.unused,
            lambda row: replace(application(row), account=names.of("account", row.account)),
        ),
        switched_off=each(
            report.switched_off,
            lambda row: replace(row, key="", label=names.of("application", row.label)),
        ),
        selection={
            key: names.of(_SELECTED[key], value) if key in _SELECTED else value
            for key, value in report.selection.items()
        },
    )
