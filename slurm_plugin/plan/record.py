"""What was submitted of a plan, in a file beside the workflow; written whole or not at all."""

import os
from pathlib import Path

import msgspec

from sacct_ingest.errors import FormatError, NimoError
from slurm_plugin.plan.chain import Job


class Submitted(msgspec.Struct, kw_only=True):
    """A plan's jobs with their ids; a job without id is not submitted yet."""

    workflow: str
    deadline_s: float | None
    submitted_s: float
    jobs: list[Job]
    ids: dict[str, str] = {}
    states: dict[str, str] = {}  #: last seen, Slurm's words
    ended_s: dict[str, float] = {}


def path_for(workflow: Path) -> Path:
    """File in which the submission of a workflow is recorded.

    >>> path_for(Path("brain.yaml")).name
    'brain.plan.json'
    """
    return workflow.with_suffix(".plan.json")


def save(path: Path, submitted: Submitted) -> None:
    """Write the record.

    Raises
    ------
    NimoError
        It cannot be written.
    """
    part = path.with_suffix(".part")
    try:
        with part.open("wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(submitted), indent=1) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        raise NimoError(f"{path}: cannot be written: {error.strerror or error}") from error


def load(path: Path) -> Submitted | None:
    """Read the record; None where there is none.

    Raises
    ------
    FormatError
        It is not such a record.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=Submitted)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise FormatError(f"{path}: {error}; remove it to submit anew") from error
