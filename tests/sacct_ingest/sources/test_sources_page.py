"""The page on sources says what the code does."""

from pathlib import Path

from sacct_ingest.sources.columns import COLUMNS
from sacct_ingest.sources.json_columns import DB_JOB, DB_STEP, LIVE_JOB
from sacct_ingest.sources.pyslurm_jobs import JOB, STEP
from sacct_ingest.sources.saved import FORMATS
from sacct_ingest.sources.swf import COLUMNS as SWF
from slurm_plugin.cli.commands.ingest import LIVE

PAGE = Path(__file__).parents[3] / "docs" / "sources.md"

SOURCES = {"JSON": DB_JOB | DB_STEP, "slurmctld": LIVE_JOB, "PySlurm": JOB | STEP, "SWF": SWF}


def columns_table() -> str:
    """The table of columns as the page has it."""
    lines = ["| column | field | of steps | not in |", "| --- " * 4 + "|"]
    for name in dict.fromkeys(column.name for column in COLUMNS):
        uses = [column for column in COLUMNS if column.name == name]
        jobs = ", ".join(dict.fromkeys(f"`{use.job}`" for use in uses if named(use.job)))
        steps = ", ".join(dict.fromkeys(f"`{use.step}`" for use in uses if named(use.step)))
        lacks = ", ".join(of for of, source in SOURCES.items() if name not in source)
        lines.append(f"| {name} | {jobs} | {steps} | {lacks} |")
    return "\n".join(lines)


def named(field: str) -> bool:
    return bool(field) and not field.startswith("_")


def test_the_columns_are_those_of_the_code():
    shown = PAGE.read_text().partition("% begin columns\n")[2].partition("\n% end columns")[0]
    assert shown == columns_table(), f"the page should say:\n{columns_table()}"


def test_every_source_and_format_is_on_the_page():
    page = PAGE.read_text()
    for word in (*(f"--source {name}" for name in LIVE if name != "sacct"), *FORMATS):
        assert word in page, word
