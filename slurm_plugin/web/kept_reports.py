"""Reports of the process before, or of the last fit: a page after a start has one at once."""

import logging
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec

from sacct_ingest.files import atomic_file
from slurm_plugin.evaluation.outcomes import VERSION, OutcomeReport

_log = logging.getLogger(__name__)
#: Files in the folder, of which the oldest leave.
_MOST = 100


@dataclass(frozen=True, slots=True)
class KeptReports:
    """A folder of reports, each under what it is about.

    folder: None: nothing is kept.
    store: where their jobs are: reports of another store are not shown.
    oldest_s: age from which one is not shown any more.
    stored: gives that of the last fit, with its age in seconds; None: there is none.
    """

    folder: Path | None
    store: str
    oldest_s: float
    stored: Callable[[Any], tuple[OutcomeReport, float] | None] = lambda _: None

    def find(self, key: Hashable) -> tuple[OutcomeReport, float] | None:
        """Give the youngest report and its age in seconds; None: there is none that can be read.

        One without a decision is none: it would say of a site that begins that nothing happened.
        """
        found = [one for one in (self._left(key), self.stored(key)) if one]
        young = [one for one in found if one[1] <= self.oldest_s and one[0].decisions]
        return min(young, key=lambda one: one[1], default=None)

    def _left(self, key: Hashable) -> tuple[OutcomeReport, float] | None:
        """Give what the process before left."""
        if self.folder is None:
            return None
        path = _path(self.folder, self.store, key)
        try:
            age_s = max(time.time() - path.stat().st_mtime, 0.0)
            return msgspec.json.decode(path.read_bytes(), type=OutcomeReport), age_s
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError) as error:
            _log.warning("%s: %s", path, error)
            return None

    def put(self, key: Hashable, report: OutcomeReport) -> None:
        """Keep a report; where that fails the next process makes it anew."""
        if self.folder is None:
            return
        path = _path(self.folder, self.store, key)
        try:
            atomic_file.write(path, msgspec.json.encode(report), mode=0o600, synced=False)
            files = sorted(self.folder.glob("*.json"), key=lambda one: one.stat().st_mtime)
            for one in files[:-_MOST]:
                one.unlink(missing_ok=True)
        except OSError as error:
            _log.warning("no report is kept: %s", error)


def _path(folder: Path, store: str, key: Hashable) -> Path:
    about = repr((version("nimo-slurm"), VERSION, store, key))
    return folder / f"{blake2b(about.encode(), digest_size=16).hexdigest()}.json"
