"""A made-up accounting: what slurmdbd would tell at each moment of ten days."""

import marshal
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random

BEGIN_S = 1_690_000_000
DAY_S = 86_400
#: When an ingest is run.
NOWS = tuple(BEGIN_S + round(days * DAY_S) for days in (5.2, 10))
_NEVER = 2**40


@dataclass
class Entry:
    """A job with its steps as it is told from ``from_s`` until ``to_s``."""

    rows: list[dict[str, str]]  #: the job, then its steps
    from_s: int
    to_s: int = _NEVER
    spans: list[tuple[int, int]] = field(default_factory=list)  #: start and end of each row


def make_history(rng: Random, jobs: int = 45) -> list[Entry]:
    """Jobs short and long, odd names, requeues, rows that come late or change, a bad row."""
    entries: list[Entry] = []
    for number in range(jobs):
        submit_s = BEGIN_S + rng.randrange(9 * DAY_S)
        length_s = round(min(3 * DAY_S, rng.lognormvariate(8, 2)))
        start_s = submit_s + rng.randrange(3600)
        first = _entry(rng, 100 + number, submit_s, start_s, start_s + length_s)
        entries.append(first)
        kind = rng.random()
        if kind < 0.15:  # requeued: the same id, a later submit time
            first.rows[0]["State"] = "REQUEUED"
            again_s = start_s + length_s + 1
            entries.append(_entry(rng, 100 + number, again_s, again_s + 60, again_s + 500))
        elif kind < 0.3:  # changed after it was told
            change_s = first.from_s + rng.randrange(3 * DAY_S)
            changed = Entry([dict(row) for row in first.rows], change_s, spans=list(first.spans))
            changed.rows[0] |= {"State": "NODE_FAIL", "Comment": "mended"}
            first.to_s = change_s
            entries.append(changed)
    entries[0].rows[0]["ElapsedRaw"] = "many"
    return entries


def write(entries: list[Entry], path: Path) -> None:
    """Write it for the stand-in of sacct."""
    path.write_bytes(marshal.dumps([asdict(entry) for entry in entries]))


def _entry(rng: Random, job_id: int, submit_s: int, start_s: int, end_s: int) -> Entry:
    name = rng.choice(("wrf", "cp2k", "two\nlines", "a|b\tc", "naïve 名前"))
    late_s = rng.choice((0, 5, 1800, 1800, 7200, DAY_S, 2 * DAY_S))
    job = _row(str(job_id), submit_s, start_s, end_s) | {
        "User": rng.choice(("ada", "bob")),
        "JobName": f"{name}{job_id}",
        "SubmitLine": f"sbatch -N 2 {name.split()[0]}.sh",
        "WorkDir": "/home/ada",
        "NNodes": str(rng.choice((1, 2, 4, 8))),
        "AdminComment": f"NIMO1:{job_id:012x}:n=2" if rng.random() < 0.3 else "",
        "State": rng.choice(("COMPLETED", "COMPLETED", "TIMEOUT", "CANCELLED by 1001")),
    }
    rows, spans = [job], [(start_s, end_s)]
    at_s = start_s
    for step in range(rng.randrange(4)):
        until_s = rng.randrange(at_s, end_s + 1)
        rows.append(_row(f"{job_id}.{step}", at_s, at_s, until_s) | {"JobName": "step"})
        spans.append((at_s, until_s))
        at_s = until_s
    return Entry(rows, end_s + late_s, spans=spans)


def _row(job_id: str, submit_s: int, start_s: int, end_s: int) -> dict[str, str]:
    times = {"Submit": submit_s, "Start": start_s, "End": end_s, "ElapsedRaw": end_s - start_s}
    return {
        "JobIDRaw": job_id,
        "JobID": job_id,
        "Cluster": "pine",
        "State": "COMPLETED",
        "Comment": "",
        **{name: str(value) for name, value in times.items()},
    }
