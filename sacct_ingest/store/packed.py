"""Runs on their way into the store: made ready where they are read, unpacked where they are new.

Each is told by its key and a digest of all that is known of it, and what the store knows is never
unpacked.  What is unpacked are columns as they are written: the process that writes has little
else to do.
"""

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from itertools import islice
from typing import Final

import msgspec

from sacct_ingest.records import JobRun, JobState
from sacct_ingest.store.run_values import RunColumns, columns_of
from sacct_ingest.store.text import indexed

#: Runs packed together: few enough to be still in the processor's cache.
_TOGETHER: Final = 100
#: Cluster, submit time and job id of a run.
Key = tuple[str, int, int]


class PackedRuns(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Some runs with their steps; ``body`` has their columns, as MessagePack."""

    keys: list[Key]
    digests: list[str]
    resized: list[bool]  #: the rest of a resized job, of which only the key is known
    body: msgspec.Raw

    def __len__(self) -> int:
        """Count the runs."""
        return len(self.keys)


def pack_runs(given: Iterable[JobRun]) -> Iterator[PackedRuns]:
    """Pack runs, some at a time."""
    source = iter(given)
    while some := list(islice(source, _TOGETHER)):
        # Of the records, not of their columns: another column leaves the digests as they are.
        digests = [blake2b(encode(run), digest_size=16).hexdigest() for run in some]
        yield PackedRuns(
            [(indexed(run.cluster, 64), run.submit_s, run.job_id) for run in some],
            digests,
            [run.state is JobState.RESIZING for run in some],
            msgspec.Raw(encode(columns_of(some, digests))),
        )


encode = msgspec.msgpack.Encoder().encode
unpacked = msgspec.msgpack.Decoder(RunColumns).decode
