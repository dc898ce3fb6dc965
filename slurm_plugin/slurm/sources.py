"""Asking Slurm with its commands, as JSON or as text, or through PySlurm, and reading the answer.

Users write what they like into some fields of a job, line ends and separators included.  In text
these fields are the last of a line, and a random word stands behind each
(:func:`slurm_plugin.slurm.commands.run` keeps it out of the command line).
"""

import ctypes
import importlib
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from sacct_ingest.errors import SlurmError
from slurm_plugin.slurm import converters, fields
from slurm_plugin.slurm.cluster_state import RawJob, RawNode, RawPartition, RawReservation, RawState
from slurm_plugin.slurm.het_jobs import joined_components

#: Runs a command and gives its text; raises SlurmError.
Run = Callable[[Sequence[str]], str]
#: Runs a command and gives what stands before each of these words; raises SlurmError.
Records = Callable[[Sequence[str], str], Iterable[str]]
#: Makes other values of those of a job that was read.
OfJob = Callable[[Mapping[str, Any]], Mapping[str, Any]]
Release = tuple[int, int]

_END = "\x1f"  #: no node, partition or licence has this in its name
_STATES = "R,CG,CF,S,PD,SI,SO,ST"


#: Stands for the word behind users' own fields where no Slurm is asked.
SEPARATOR = "nimo-separator"
#: States of jobs that wait or have nodes; squeue lists ended ones, too, as JSON in spite of ``-t``.
ACTIVE = frozenset({
    "RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED", "PENDING", "SIGNALING", "STAGE_OUT",
    "STOPPED",
})  # fmt: skip
#: From then on ``OverSubscribe`` says nothing of whole nodes, nor does JSON.
_EXCLUSIVE: Release = (26, 5)
SQUEUE_JSON = ("squeue", "-a", "-t", _STATES, "--json")
#: Release from which on nodes are read as JSON, newest first; sinfo lumps them together from 23.02.
NODES_JSON: Sequence[tuple[Release, tuple[str, ...]]] = (
    ((23, 2), ("scontrol", "show", "nodes", "--json")),
    ((22, 5), ("sinfo", "-a", "-N", "--json")),
)
PARTITIONS = ("scontrol", "show", "partition", "-a", "-o")
RESERVATIONS = ("scontrol", "show", "reservation", "-o")
LICENCES = ("scontrol", "show", "licenses", "-o")
#: Optional: it works with the one release of Slurm that it was compiled against.
_MODULE = "pyslurm"
#: Major number of libslurm's interface to release (API_CURRENT in Slurm's META file).
_RELEASES: dict[int, Release] = {
    38: (22, 5), 39: (23, 2), 40: (23, 11), 41: (24, 5), 42: (24, 11), 43: (25, 5), 44: (25, 11),
    45: (26, 5),
}  # fmt: skip


def _format(rows: Iterable[fields.SlurmField], separator: str = "") -> str:
    return ",".join(f"{row.text}:{separator if row.by_user else _END}" for row in rows)


SINFO = ("sinfo", "-h", "-a", "-N", "-O", _format(fields.NODE))


def job_fields(release: Release) -> Sequence[fields.SlurmField]:
    """Fields of a job in text of this release."""
    if release < _EXCLUSIVE:
        return fields.JOB
    alone = fields.SlurmField("alone", "Exclusive", (), converters.takes_nodes)
    return [alone if one.name == "alone" else one for one in fields.JOB]


def squeue_command(release: Release, separator: str = SEPARATOR) -> tuple[str, ...]:
    """Command that prints jobs as text."""
    return ("squeue", "-h", "-a", "-t", _STATES, "-O", _format(job_fields(release), separator))


def has_json(release: Release) -> bool:
    """Whether a release prints nodes and jobs as JSON."""
    return release >= NODES_JSON[-1][0]


def _as_read(job: Mapping[str, Any]) -> Mapping[str, Any]:
    return job


def ask_text(
    run: Run,
    release: Release = NODES_JSON[0][0],
    *,
    records: Records | None = None,
    of_job: OfJob = _as_read,
) -> RawState:
    """Ask for everything as text.

    records: gives jobs one by one, as there may be very many of them; None: ``run`` gives them.
    Raises SlurmError: a command failed, or its output cannot be read.
    """
    jobs = _ask_jobs(run, release, records, of_job)
    with_few = read_text("", run(SINFO), *ask_few(run))
    return replace(with_few, jobs=jobs)


def ask_json(
    run: Run, release: Release, *, records: Records | None = None, of_job: OfJob = _as_read
) -> RawState:
    """Ask for nodes and jobs as JSON, for the rest as text; parameters as of :func:`ask_text`.

    Raises SlurmError: a command failed, or its output cannot be read.
    """
    argv = next(argv for since, argv in NODES_JSON if release >= since)
    if release < _EXCLUSIVE:
        return read_json(run(SQUEUE_JSON), run(argv), *ask_few(run), of_job=of_job)
    partial_state = read_json('{"jobs": []}', run(argv), *ask_few(run))
    return replace(partial_state, jobs=_ask_jobs(run, release, records, of_job))


def _ask_jobs(run: Run, release: Release, records: Records | None, of_job: OfJob) -> list[RawJob]:
    separator = f"n{secrets.token_hex(6)}"
    command = squeue_command(release, separator)
    end = f"{separator}\n"
    one_by_one = run(command).split(end) if records is None else records(command, end)
    return _jobs(one_by_one, job_fields(release), separator, of_job)


def ask_few(run: Run) -> tuple[str, str, str]:
    """Text of partitions, reservations and licences."""
    return run(PARTITIONS), run(RESERVATIONS), run(LICENCES)


def read_text(
    squeue: str,
    sinfo: str,
    partitions: str,
    reservations: str = "",
    licences: str = "",
    *,
    job: Sequence[fields.SlurmField] = fields.JOB,
) -> RawState:
    """Read text of the commands above.

    Raises SlurmError: the text is not what these commands write.
    """
    with_few = read_few(partitions, reservations, licences)
    try:
        nodes: dict[str, dict[str, Any]] = {}
        # It has a line for each partition of a node.
        for row in _rows(fields.NODE, sinfo):
            node = nodes.setdefault(row["name"], {**row, "partitions": set()})
            node["partitions"].update(name.rstrip("*") for name in row["partitions"])
        for node in nodes.values():
            node["partitions"] = tuple(sorted(node["partitions"]))
        jobs = _jobs(squeue.split(f"{SEPARATOR}\n"), job)
        return replace(with_few, nodes=[RawNode(**node) for node in nodes.values()], jobs=jobs)
    except (ValueError, TypeError) as error:
        raise SlurmError(f"squeue or sinfo printed text that NIMO cannot read: {error}") from error


def _jobs(
    records: Iterable[str],
    job: Sequence[fields.SlurmField],
    separator: str = SEPARATOR,
    of_job: OfJob = _as_read,
) -> list[RawJob]:
    try:
        ours = sum(not row.by_user for row in job)
        read = fields.words_reader(job)
        texts = (one.split(separator) for one in records if one)
        rows = (of_job(read([*first.split(_END, ours), *others])) for first, *others in texts)
        # Of a job without an array text has its own id.
        return joined_components(
            RawJob(**(row if row["tasks"] else {**row, "array_id": None})) for row in rows
        )
    except (ValueError, TypeError) as error:
        raise SlurmError(f"squeue printed text that NIMO cannot read: {error}") from error


def read_json(
    squeue: str,
    nodes: str,
    partitions: str,
    reservations: str = "",
    licences: str = "",
    *,
    of_job: OfJob = _as_read,
) -> RawState:
    """Read JSON of the commands above, of any release.

    Raises SlurmError: the JSON is not what these commands write.
    """
    with_few = read_few(partitions, reservations, licences)
    try:
        return replace(
            with_few,
            nodes=[_node(item) for item in _items(msgspec.json.decode(nodes, type=_Nodes).nodes)],
            jobs=joined_components(
                RawJob(**of_job(fields.read_json(fields.JOB, item)))
                for item in _items(msgspec.json.decode(squeue, type=_Jobs).jobs)
                if converters.state(item["job_state"]) in ACTIVE
            ),
        )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise SlurmError(
            f"squeue or sinfo printed JSON that NIMO cannot read: {error!r}"
        ) from error


class _Nodes(msgspec.Struct):
    nodes: list[msgspec.Raw]


class _Jobs(msgspec.Struct):
    jobs: list[msgspec.Raw]


def _items(raw: Iterable[msgspec.Raw]) -> Iterator[dict[str, Any]]:
    """Decode one after the other: all at once no other thread could run, for half a second."""
    for item in raw:
        yield msgspec.json.decode(item)


def _node(item: dict[str, Any]) -> RawNode:
    # 22.05 has the state apart from its flags.
    parts = [item["state"]] if isinstance(item["state"], str) else item["state"]
    item["state"] = [*parts, *item.get("state_flags", ())]
    item["partitions"] = sorted(item.get("partitions") or ())
    return RawNode(**fields.read_json(fields.NODE, item))


def line(rows: Sequence[fields.SlurmField], values: Mapping[str, Any]) -> str:
    """Line of text as Slurm writes it, from Slurm's words; for stand-ins of its commands."""
    ends = ((row, SEPARATOR if row.by_user else _END) for row in rows)
    return "".join(f"{values.get(row.text, '(null)')}{end}" for row, end in ends) + "\n"


def _rows(rows: Sequence[fields.SlurmField], text: str) -> Iterator[dict[str, Any]]:
    read = fields.words_reader(rows)
    # Not splitlines(): it would part lines at the separator's neighbours, too.
    for one in text.split("\n"):
        if one:
            yield read(one.split(_END)[: len(rows)])


def read_few(partitions: str, reservations: str, licences: str) -> RawState:
    """Read the text of partitions, reservations and licences."""
    try:
        return RawState(
            partitions=[
                RawPartition(**fields.read(fields.PARTITION, row)) for row in _pairs(partitions)
            ],
            reservations=[
                RawReservation(**fields.read(fields.RESERVATION, row))
                for row in _pairs(reservations)
                if "ReservationName" in row
            ],
            licences={
                row["LicenseName"]: converters.count(row.get("Total", ""))
                for row in _pairs(licences)
                if "LicenseName" in row
            },
        )
    except (ValueError, TypeError) as error:
        raise SlurmError(f"scontrol printed text that NIMO cannot read: {error}") from error


def _pairs(text: str) -> Iterator[dict[str, str]]:
    for line in text.splitlines():
        if "=" in line:
            yield dict(word.partition("=")[::2] for word in line.split() if "=" in word)


def load_pyslurm(release: Release) -> Any:
    """Import PySlurm for a Slurm of this release.

    Raises SlurmError: it is not installed, does not load, or belongs to another release; the
        message says which.
    """
    try:
        module = importlib.import_module(_MODULE)
        built = library_release() or tuple(map(int, str(module.__version__).split(".")[:2]))
    except Exception as error:  # an extension module may fail in any way
        raise SlurmError(f"PySlurm cannot be loaded: {error}") from error
    if built != release:
        have, want = (f"{major}.{minor:02}" for major, minor in (built, release))
        raise SlurmError(f"PySlurm is for Slurm {have}, slurmctld is {want}")
    return module


def library_release() -> Release | None:
    """Release of the libslurm that PySlurm has loaded into the process; None where that is unknown.

    That, not PySlurm's own version, has to speak slurmctld's protocol.
    """
    try:
        asked: Callable[[], int] = ctypes.CDLL(None).slurm_api_version
    except (AttributeError, OSError):
        return None
    return _RELEASES.get(asked() >> 16)


def ask_pyslurm(module: Any, run: Run, *, of_job: OfJob = _as_read) -> RawState:
    """Ask through PySlurm. Raises SlurmError: it failed, or its objects have unexpected fields."""
    few = read_few(*ask_few(run))
    try:
        jobs = _values(module.Jobs.load())
        nodes = _values(module.Nodes.load())
        return replace(
            few,
            nodes=[RawNode(**fields.read_object(fields.NODE, node)) for node in nodes],
            jobs=joined_components(
                _job(job, of_job) for job in jobs if converters.state(job.state) in ACTIVE
            ),
        )
    except Exception as error:  # PySlurm has errors of its own
        raise SlurmError(f"PySlurm: {error!r}") from error


def _values(loaded: Any) -> list[Any]:
    return list(loaded.values()) if hasattr(loaded, "values") else list(loaded)


def _job(job: Any, of_job: OfJob) -> RawJob:
    devices = converters.gres(job.gres or {})
    tres = {"cpu": float(job.cpus or 0), "mem": float(job.memory or 0)}
    tres |= {f"gres/{name}": float(n) for name, n in devices.items()}
    return replace(RawJob(**of_job(fields.read_object(fields.JOB, job))), tres=tres)
