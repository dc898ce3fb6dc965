"""What ``scontrol show job`` prints of one job."""

import re

from sacct_ingest.records import ShownJob
from sacct_ingest.scripts.signature import identity_of_line
from sacct_ingest.text.slurm_text import parse_epoch, parse_time_limit

_UNSET = frozenset({"", "(null)", "N/A", "None", "Unknown"})
#: States of jobs that have no nodes yet.
_WAITING = ("PENDING", "REQUEUED", "SPECIAL_EXIT")
_NODES = re.compile(r"(\d+)(?:-(\d+))?")
#: What users write stands on a line of its own, and may hold blanks and ``=``.
_WHOLE = re.compile(r"^\s*(Command|SubmitLine|WorkDir|Comment)=(.*)$", re.MULTILINE)
_FIRST = re.compile(r"^JobId=\d+.*? JobName=(.*)$", re.MULTILINE)


def read_shown_job(text: str) -> ShownJob | None:
    """Read the first job that ``scontrol show job`` prints, with times in seconds since the epoch.

    None: it shows none, or not in words of a release that is supported.
    """
    record, _, _ = text.partition("\n\n")
    found = shown_fields(record)
    if found is None:
        return None
    name, whole, fields = found
    try:
        submit_s = parse_epoch(fields["SubmitTime"])
        deadline_s = parse_epoch(fields.get("Deadline", "N/A"))
        nodes = _NODES.fullmatch(fields["NumNodes"])
        limit_s = parse_time_limit(fields["TimeLimit"])
        least_limit_s = parse_time_limit(fields.get("TimeMin", "N/A"))
    except (KeyError, ValueError):
        return None
    if submit_s is None or nodes is None:
        return None
    started = fields.get("JobState") not in _WAITING
    work_dir = whole.get("WorkDir", "")
    user = fields.get("UserId", "").partition("(")[0]
    low_nodes = int(nodes[1])
    if started:
        high_nodes: int | None = low_nodes
    else:
        high_nodes = int(nodes[2]) if nodes[2] else None
    tasks = fields.get("NumTasks", "")
    return ShownJob(
        user=user,
        name=name,
        work_dir=work_dir,
        submit_s=submit_s,
        low_nodes=low_nodes,
        high_nodes=high_nodes,
        started=started,
        tasks=int(tasks) if tasks.isdecimal() else None,
        limit_s=limit_s,
        least_limit_s=least_limit_s,
        deadline_s=None if deadline_s is None else float(deadline_s),
        partitions=tuple(filter(None, fields.get("Partition", "").split(","))),
        line=_line(whole, user, name, work_dir) if fields.get("BatchFlag") == "1" else "",
    )


def shown_fields(record: str) -> tuple[str, dict[str, str], dict[str, str]] | None:
    """Take a record apart: the job's name, what else users write, and Slurm's own words.

    None: it is no job.
    """
    first = _FIRST.search(record)
    if first is None:
        return None
    rest = record[first.end() :]
    words = _WHOLE.sub("", rest).split()
    # A word that comes twice is the user's the second time.
    fields = dict(word.partition("=")[::2] for word in reversed(words))
    return first[1], dict(_WHOLE.findall(rest)), fields


def _line(whole: dict[str, str], user: str, name: str, work_dir: str) -> str:
    """Key of script and arguments; empty where the release shows no arguments.

    They are in the submit line, or as in 22.05 after the script's path.
    """
    submit_line = whole.get("SubmitLine", "")
    command = whole.get("Command", "")
    if submit_line in _UNSET:
        if command in _UNSET or " " not in command:
            return ""
        submit_line = f"sbatch {command}"
    comment = whole.get("Comment", "")
    return identity_of_line(user, name, comment, submit_line, work_dir).line
