"""Runs on their way into the store: packed where they are read, unpacked where they are new.

A run that the store knows is told by its digest, and never unpacked.
"""

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any

import msgspec

from sacct_ingest.records import JobRun, JobState
from sacct_ingest.store.text import indexed

#: Cluster, submit time and job id of a run.
Key = tuple[str, int, int]


class PackedRun(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A run with its steps, as MessagePack; ``digest`` is of all of it."""

    cluster: str
    submit_s: int
    job_id: int
    digest: str
    resized: bool  #: the rest of a resized job, of which only the key is known
    body: msgspec.Raw

    @property
    def key(self) -> Key:
        """What tells the run from all others."""
        return self.cluster, self.submit_s, self.job_id


def pack_runs(given: Iterable[JobRun]) -> list[PackedRun]:
    """Pack runs."""
    return [_packed(run) for run in given]


def unpacked(packed: Iterable[PackedRun]) -> list[Sequence[Any]]:
    """Give the values of runs, in the order of the fields of `JobRun`."""
    return [_decode(one.body) for one in packed]


def _packed(run: JobRun) -> PackedRun:
    body = encode(run)
    digest = blake2b(body, digest_size=16).hexdigest()
    resized = run.state is JobState.RESIZING
    return PackedRun(
        indexed(run.cluster, 64), run.submit_s, run.job_id, digest, resized, msgspec.Raw(body)
    )


encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[Any]).decode
