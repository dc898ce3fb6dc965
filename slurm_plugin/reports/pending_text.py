"""Why jobs wait and when they start, as text and as JSON."""

import shlex
from collections.abc import Iterable, Sequence

import msgspec

from sacct_ingest.text.durations import duration_range, duration_text
from slurm_plugin.slurm.job_edit import AT_ONCE_S, Edit
from slurm_plugin.slurm.pending_job import PendingJob, condition_text
from slurm_plugin.slurm.pending_reasons import Ends, PendingReason
from slurm_plugin.text.formatting import count, ends_differ, percent, printable, short_clock

#: What its user has to look at comes first.
_ORDER = (Ends.NEVER, Ends.SOMEBODY, Ends.TURN, Ends.OTHERS)
_BEGINS = {Ends.NEVER: "can never start as it is", Ends.SOMEBODY: "does not start by itself"}


class EditRow(msgspec.Struct, kw_only=True):
    """A change that would start a job sooner."""

    argv: list[str]  #: command that does it; empty: it takes a new submission
    what: str
    caution: str = ""
    start_s: float | None = None  #: None: not known
    gain_s: float | None = None  #: by so much sooner; None: as it is it does not start
    gain_low_s: float | None = None  #: nine in ten are between these; None: by limits alone
    gain_high_s: float | None = None
    chance: float | None = None  #: that it starts sooner at all; None: by limits alone
    agreed: bool = False  #: Slurm takes such a job (``sbatch --test-only``)
    slurm_s: float | None = None  #: when it would start it, by running jobs alone


class PendingAnswer(msgspec.Struct, kw_only=True):
    """Why one job waits, and when it starts."""

    job_id: int
    task: str = ""  #: of an array: its tasks that wait
    name: str = ""
    partition: str = ""
    slurm_reason: str = ""  #: Slurm's word
    ends: Ends = Ends.OTHERS  #: what ends the wait
    sentence: str = ""  #: why it waits
    change: str = ""  #: what would have to change; empty: nothing has to
    start_s: float | None = None  #: half of such jobs have started by then; None: unknown
    low_s: float | None = None  #: nine in ten start between these
    high_s: float | None = None
    condition: str = ""  #: of that start: "if job 12 ends well"; empty: none
    after: str = ""  #: reservation that it starts behind: "Thursday's maintenance upgrade"
    slurm_start_s: float | None = None  #: planned by Slurm
    edits: list[EditRow] = []  #: what would start it sooner
    looked: bool = False  #: that was looked for
    may_change: bool = True  #: who asks may change it; otherwise there are no edits
    troubles: list[str] = []  #: what could not be found out, and why


def answer_of(job: PendingJob, reason: PendingReason) -> PendingAnswer:
    """Begin the answer about a job."""
    return PendingAnswer(
        job_id=job.array_id or job.job_id if job.tasks else job.job_id,
        task=job.tasks,
        name=job.name,
        partition=",".join(job.partitions),
        slurm_reason=job.reason,
        ends=reason.ends,
        sentence=reason.sentence,
        change=reason.change,
        slurm_start_s=job.start_s,
        condition=condition_text(job.depends),
    )


def edit_row(edit: Edit) -> EditRow:
    """Give what is said of a change."""
    return EditRow(
        argv=list(edit.argv),
        what=edit.what,
        caution=edit.caution,
        start_s=edit.start_s,
        gain_s=edit.gain_s,
        gain_low_s=edit.gain_low_s,
        gain_high_s=edit.gain_high_s,
        chance=edit.chance,
        agreed=edit.agreed,
        slurm_s=edit.slurm_s,
    )


def job_label(one: PendingAnswer) -> str:
    """Write the number of a job, or of a task: ``4711``, ``4711_3``."""
    return f"{one.job_id}_{one.task}" if one.task.isdecimal() else f"{one.job_id}"


def in_order(answers: Iterable[PendingAnswer]) -> list[PendingAnswer]:
    """Sort jobs: those first that do not start by themselves."""
    return sorted(answers, key=lambda one: _ORDER.index(one.ends))


def told(one: PendingAnswer, *, now_s: float) -> list[str]:
    """Say why a job waits and when it starts, a sentence or two a line."""
    begins = _BEGINS.get(one.ends, "waits")
    name = f" ({printable(one.name)})" if one.name else ""
    lines = [f"Job {job_label(one)}{name} {begins}: {one.sentence}."]
    if one.change:
        lines.append(f"What would help: {one.change}.")
    if one.ends not in _BEGINS:
        lines.append(start_text(one))
    lines += edits_text(one.edits, now_s=now_s)
    lines += [f"Not found out: {trouble}." for trouble in one.troubles]
    return lines


def edits_text(edits: Sequence[EditRow], *, now_s: float) -> list[str]:
    """List changes, each with its line to paste and when the job would start."""
    if not edits:
        return []
    lines = ["", "What would start it sooner:"]
    for number, one in enumerate(edits, 1):
        lines.append(f"{number}. {one.what}: {edited_start(one, now_s)}{_costs(one)}.")
        if one.argv:
            lines.append(f"     {shlex.join(one.argv)}")
    return lines


def edited_start(one: EditRow, now_s: float) -> str:
    """Say when a changed job starts, and by how much sooner.

    Where only limits say so it could.
    """
    if one.start_s is None:
        return "its start is not known"
    at_once = one.start_s <= now_s + AT_ONCE_S
    when = "at once" if at_once else f"about {short_clock(one.start_s)}"
    if one.gain_s is None:
        return f"it could start {when}"
    if one.gain_low_s is None or one.gain_high_s is None or one.chance is None:
        return f"it could start {when}, {duration_text(one.gain_s)} sooner"
    gain = duration_text(one.gain_s)
    between = duration_range(max(one.gain_low_s, 0.0), max(one.gain_high_s, 0.0))
    interval = f" ({between})" if between != gain else ""
    return f"it starts {when}, about {gain} sooner{interval}, {percent(one.chance)} certain"


def _costs(one: EditRow) -> str:
    agreed = "; Slurm would take it" if one.agreed else ""
    return (f", {one.caution}" if one.caution else "") + agreed


def start_text(one: PendingAnswer) -> str:
    """Say when a job starts."""
    planned = f"Slurm plans {short_clock(one.slurm_start_s)}" if one.slurm_start_s else ""
    if one.start_s is None:
        return f"{planned}." if planned else "Neither NIMO nor Slurm can say yet when it starts."
    said = f"It starts about {short_clock(one.start_s)}"
    if ends_differ(one.low_s, one.high_s):
        between = f"{short_clock(one.low_s)} and {short_clock(one.high_s)}"
        said += f" (nine in ten of such jobs between {between})"
    if one.condition:
        said += f", {one.condition}"
    if one.after:
        said += f", after {one.after}"
    return f"{said}; {planned}." if planned else f"{said}."


def unlooked_text(answers: Sequence[PendingAnswer]) -> str:
    """Say of how many jobs no changes were looked for; empty: of none."""
    left = sum(one.may_change and not one.looked for one in answers)
    jobs = count(left, "more job", "more jobs")
    return f"What would start {jobs} sooner: 'nimo why JOBID' says it." if left else ""


def rest_text(left: int) -> str:
    """Say how many jobs more wait."""
    jobs = count(left, "more job of yours waits", "more of your jobs wait")
    return f"{jobs}: 'nimo wait' lists all."
