"""A report without names: the same pseudonym for the same name, within one report."""

from dataclasses import fields, replace
from typing import Any

from sacct_ingest.records import StandingRow
from slurm_plugin.evaluation.diagnoses import JobDiagnosis
from slurm_plugin.evaluation.outcomes import OutcomeReport

#: Fields of rows, and of the selection, that hold names, and what stands for these.
_KINDS = {
    **dict.fromkeys(("application", "name", "label"), "application"),
    "user": "user",
    "account": "account",
}
#: The tables with names, in the order in which these are numbered.
_TABLES = (
    *("applications", "problems", "records", "drift", "stopped", "jobs"),
    *("waste", "arrays", "unused", "energy", "switched_off"),
)
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

    def row(one: Any) -> Any:
        own = {field.name for field in fields(one)}
        changes = {
            name: names.of(kind, getattr(one, name)) for name, kind in _KINDS.items() if name in own
        }
        if isinstance(one, JobDiagnosis):
            # Arguments, folders and job names stand in some of these texts.
            changes["text"] = _TEXTS.get(one.problem, one.text)
        elif isinstance(one, StandingRow):
            changes["key"] = ""
        return replace(one, **changes)

    tables: dict[str, Any] = {name: tuple(map(row, getattr(report, name))) for name in _TABLES}
    selection = {
        key: names.of(key, value) if key in _KINDS else value
        for key, value in report.selection.items()
    }
    return replace(report, anonymous=True, selection=selection, **tables)
