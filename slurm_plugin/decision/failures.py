"""Messages about failed runs: how many, after how long, and in which output file."""

from predictor.facts import Failures
from predictor.prediction_table import PredictionTable
from sacct_ingest.runs.submission import JobKind
from sacct_ingest.scripts.job_script import script_options
from sacct_ingest.scripts.output_file import output_file
from sacct_ingest.text.durations import duration_range
from slurm_plugin.decision.allowed_counts import is_own_work
from slurm_plugin.text.formatting import count, printable

#: Runs that failed in a row, or among the latest ones, from which on it is worth a sentence.
_IN_A_ROW, _OFTEN = 2, 3
#: Kinds of jobs that end when somebody wants it, whatever their exit code.
_ENDED_AT_WILL = (JobKind.PILOT, JobKind.SESSION)


def failures_text(
    table: PredictionTable, user: str, script: str = "", *, in_a_row: bool = False
) -> str:
    """Say that a user's runs failed, and where the last of them wrote to; empty: few did.

    script: text of the job's script, which may name the file.
    in_a_row: only where the last runs all failed.
    """
    failures = table.failures
    if failures is None or table.kind in _ENDED_AT_WILL or not is_own_work(table, user):
        return ""
    if failures.runs < _IN_A_ROW:
        all_of_them = failures.often == failures.of
        if in_a_row or not (all_of_them or failures.often >= _OFTEN):
            return ""
    code = f" (exit {failures.exit_code})" if failures.exit_code else ""
    after = f"failed after {duration_range(failures.low_s, failures.high_s)}{code}"
    file = _file(failures, user, script)
    output = f"; the last output was in {printable(file)}" if file else ""
    return f"{_which(failures)} {after}{output}"


def _which(failures: Failures) -> str:
    if failures.of == 1:
        return "the only run"
    if failures.runs == failures.often:
        return f"the last {count(failures.runs, 'run')}"
    return f"{failures.often} of the last {failures.of} runs"


def _file(failures: Failures, user: str, script: str) -> str:
    options = script_options(script)
    named = failures.output or options.get("error") or options.get("output") or ""
    return output_file(
        named,
        job_id=failures.job_id,
        name=failures.name,
        user=user,
        array_job_id=failures.array_job_id,
        array_task_id=failures.array_task_id,
    )
