"""``nimo merge``: merge run times by node type from other stores."""

import argparse
import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from sacct_ingest.errors import FormatError, system_errors
from sacct_ingest.files.atomic_file import replacing
from sacct_ingest.store.rows import Contribution
from slurm_plugin.cli.command_context import load_config
from slurm_plugin.cli.progress import waiting
from slurm_plugin.store_access import open_store
from slurm_plugin.text.formatting import count

if TYPE_CHECKING:
    from sacct_ingest.store import Store

_HEADER = b'{"nimo_contributions":1}\n'
_BATCH = 2000


@dataclass(slots=True)
class _Merged:
    source: str
    new: int = 0  #: runs that were added or updated
    refused: int = 0  #: lines that could not be read ...
    first_refused: str = ""  #: ... and the first of them, with what is wrong


def run(args: argparse.Namespace) -> int:
    """Merge each source, then export."""
    with open_store(load_config(args)) as store, waiting("merging"):
        done = [_merge(store, source) for source in args.source]
        written = write(args.export, store.sums.contributions()) if args.export else None
    if args.json:
        print(json.dumps({"merged": [asdict(one) for one in done], "exported": written}))
        return 0
    for one in done:
        print(f"{one.source}: {count(one.new, 'run')} came in")
        if one.refused:
            print(f"  {count(one.refused, 'line')} left out; the first: {one.first_refused}")
    if written is not None:
        print(f"{args.export}: {count(written, 'run')} written")
    elif not done:
        print("nothing to merge: name a store, or a file of --export")
    return 0


def _merge(store: "Store", source: str) -> _Merged:
    # Database and numbers are heavy, and --help needs none.
    from predictor.node_types import sums  # noqa: PLC0415
    from sacct_ingest.store import Store  # noqa: PLC0415

    done = _Merged(source)
    begin = b""
    with suppress(OSError), Path(source).open("rb") as file:
        begin = file.read(len(_HEADER))
    if begin == _HEADER:
        done.new = sums.merge(store, _read(Path(source), done))
    else:
        with Store.open(source, create=False) as other:
            done.new = sums.merge(store, other.sums.contributions())
    return done


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Contribution).decode
_figures = msgspec.json.Decoder(dict[str, float]).decode


def write(path: Path, batches: Iterable[list[Contribution]]) -> int:
    """Write contributions to a file; gives how many. Raises FormatError: it cannot be written."""
    count = 0
    with system_errors(FormatError, path), replacing(path) as file:
        file.write(_HEADER)
        for batch in batches:
            file.writelines(_encode(one) + b"\n" for one in batch)
            count += len(batch)
    return count


def _read(path: Path, done: _Merged) -> Iterator[list[Contribution]]:
    """Read contributions in batches; what is wrong is counted and left out.

    Raises FormatError: the file cannot be read.
    """
    batch: list[Contribution] = []
    with system_errors(FormatError, path), path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if number == 1:
                continue
            try:
                batch.append(_checked(_decode(line)))
            except (msgspec.DecodeError, ValueError) as error:
                done.refused += 1
                done.first_refused = done.first_refused or f"{path}: line {number}: {error}"
            if len(batch) == _BATCH:
                yield batch
                batch = []
    if batch:
        yield batch


def _checked(one: Contribution) -> Contribution:
    """Refuse what the sums would suffer from."""
    figures = _figures(one.figures) if one.figures else {}
    for name, value in (("nodes", one.nodes), ("tasks_node", one.tasks_node), *figures.items()):
        if not (isfinite(value) and value > 0):
            raise ValueError(f"{name} is {value}; it has to be above zero")
    if not (isfinite(one.time_s) and one.time_s >= 0):
        raise ValueError(f"time_s is {one.time_s}; it has to be zero or more")
    return one
