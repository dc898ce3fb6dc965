"""Copies that jobs made, as they report them in their comment: written here, and read.

A report has bytes, begin and end in seconds since the epoch, the load average before, the CPUs of
the node, and percent-encoded the ends of the path, and which of them the node is, if any.
"""

import re
import shlex
from collections.abc import Iterator
from urllib.parse import quote, unquote

from sacct_ingest.job_run import JobRun
from sacct_ingest.probes.local import Activity, from_load
from sacct_ingest.records import JobState, Probe, Resource

#: Lines of a job's script before its copy and behind it.
BEFORE = "busy=$(cut -d' ' -f1 /proc/loadavg) || :; began=$(date +%s.%N)"
AFTER = "ended=$(date +%s.%N)"
_NODE = "${SLURMD_NODENAME:-$(hostname -s)}"
_MOMENT = r"\d{1,12}\.\d{1,9}"
_REPORT = re.compile(
    rf"\bcopied=(?P<bytes>\d{{1,18}})/(?P<began>{_MOMENT})/(?P<ended>{_MOMENT})"
    r"/(?P<load>\d{1,6}\.\d{1,6})/(?P<cpus>[1-9]\d{0,5})"
    r"/(?P<source>[^/\s]+)/(?P<target>[^/\s]+)/(?P<end>[^/\s]*)"
)
#: By so many seconds a report may begin before its job, or end after it: Slurm counts whole ones.
_ROUNDED_S = 1.0


def report_lines(
    target: str, ends: tuple[str, str], *, end: str, host: str, options: str
) -> Iterator[str]:
    """Give the lines of a script that report the copy; its job succeeds also where they fail.

    target: path of the copy.
    ends: source and target as the series of transfers have them.
    end: the one that the job's node stands for; empty: neither.
    host: name that the node needs to have for that; empty: any.
    options: for ``scontrol``, with a space behind.
    """
    source_name, target_name, end_name = (quote(name, safe="") for name in (*ends, end))
    yield f"end={shlex.quote(end_name)}"
    if end and host:
        yield f'test "{_NODE}" = {shlex.quote(host)} || end='
    yield (
        f'scontrol {options}update JobId="$SLURM_JOB_ID" Comment="nimo:off '
        f"copied=$(du -sb -- {shlex.quote(target)} | cut -f1)/$began/$ended/$busy/"
        f'$(getconf _NPROCESSORS_ONLN)/{source_name}/{target_name}/$end" >/dev/null 2>&1 || :'
    )


def reported(comment: str) -> list[Probe] | None:
    """Give what a job's comment reports of its copy: the transfer, and the CPUs of its node.

    Nothing where nothing was moved, or in no time; None: it has no report.

    >>> moved, load = reported("nimo:off copied=300/10.0/12.0/0.50/2/n1/io%3A1/n1")
    >>> moved.source, moved.target, moved.value, load.source, load.value
    ('n1', 'io:1', 150.0, 'n1', 1.0)
    """
    report = _REPORT.search(comment)
    if report is None:
        return None
    size, began_s, ended_s = (float(report[name]) for name in ("bytes", "began", "ended"))
    moved = transfer(unquote(report["source"]), unquote(report["target"]), size, began_s, ended_s)
    if not moved or not report["end"]:
        return moved
    cpus = int(report["cpus"])
    load = float(report["load"])
    activity = Activity(cpus=cpus, load=load, running=0.0, user=0.0, system=0.0, idle=0.0)
    end = unquote(report["end"])
    share = from_load(activity)
    return [*moved, Probe(resource=Resource.CPU, source=end, at_s=began_s, value=share)]


def transfer(
    source: str, target: str, size_bytes: float, began_s: float, ended_s: float
) -> list[Probe]:
    """Give a transfer as a measurement; nothing where nothing was moved, or in no time."""
    if not ended_s > began_s or not size_bytes > 0:
        return []
    took_s = ended_s - began_s
    return [
        Probe(
            resource=Resource.TRANSFER,
            source=source,
            target=target,
            at_s=began_s,
            value=size_bytes / took_s,
            size_bytes=int(size_bytes),
            took_s=took_s,
        )
    ]


def of_run(run: JobRun) -> list[Probe]:
    """Give what a job of the accounting measured that completed and says so within its times."""
    if run.state is not JobState.COMPLETED or run.start_s is None or run.end_s is None:
        return []
    probes = reported(run.comment) or []
    first_s = run.start_s - _ROUNDED_S
    last_s = run.end_s + _ROUNDED_S
    within = all(first_s <= one.at_s and one.at_s + one.took_s <= last_s for one in probes)
    return probes if within else []
