"""A report without names: the same pseudonym for the same name, within one report."""

from collections import Counter
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


def anonymous(report: OutcomeReport) -> OutcomeReport:
    """Replace the names of users, accounts and applications; partitions and clusters stay."""
    given: dict[tuple[str, str], str] = {}
    counts: Counter[str] = Counter()

    def pseudonym(kind: str, name: str) -> str:
        """Numbered, in the order in which names are asked for."""
        if (kind, name) not in given:
            counts[kind] += 1
            given[kind, name] = f"{kind}-{counts[kind]}"
        return given[kind, name]

    def row(one: Any) -> Any:
        own = {field.name for field in fields(one)}
        changes = {
            name: pseudonym(kind, getattr(one, name))
            for name, kind in _KINDS.items()
            if name in own
        }
        if isinstance(one, JobDiagnosis):
            # Arguments, folders and job names stand in some of these texts.
            changes["text"] = _TEXTS.get(one.problem, one.text)
        elif isinstance(one, StandingRow):
            changes["key"] = ""
        return replace(one, **changes)

    tables: dict[str, Any] = {name: tuple(map(row, getattr(report, name))) for name in _TABLES}
    selection = {
        key: pseudonym(key, value) if key in _KINDS else value
        for key, value in report.selection.items()
    }
    return replace(report, anonymous=True, selection=selection, **tables)
