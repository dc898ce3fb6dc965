"""Reports of the process before: the first page after a start has one at once."""

import logging
import time
from collections.abc import Hashable
from dataclasses import dataclass
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path

import msgspec

from sacct_ingest.files import atomic_file
from slurm_plugin.evaluation.outcomes import VERSION, OutcomeReport

_log = logging.getLogger(__name__)
#: Files in the folder, of which the oldest leave.
_MOST = 100


@dataclass(frozen=True, slots=True)
class KeptReports:
    """A folder of reports, each under what it is about.

    store: where their jobs are: reports of another store are not shown.
    oldest_s: age from which one is not shown any more.
    """

    folder: Path
    store: str
    oldest_s: float

    def find(self, key: Hashable) -> tuple[OutcomeReport, float] | None:
        """Give a report and its age in seconds; None: there is none that can be read."""
        path = self._path(key)
        try:
            age_s = max(time.time() - path.stat().st_mtime, 0.0)
            if age_s > self.oldest_s:
                return None
            return msgspec.json.decode(path.read_bytes(), type=OutcomeReport), age_s
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError) as error:
            _log.warning("%s: %s", path, error)
            return None

    def put(self, key: Hashable, report: OutcomeReport) -> None:
        """Keep a report; where that fails the next process makes it anew."""
        try:
            atomic_file.write(
                self._path(key), msgspec.json.encode(report), mode=0o600, synced=False
            )
            files = sorted(self.folder.glob("*.json"), key=lambda one: one.stat().st_mtime)
            for one in files[:-_MOST]:
                one.unlink(missing_ok=True)
        except OSError as error:
            _log.warning("no report is kept: %s", error)

    def _path(self, key: Hashable) -> Path:
        about = repr((version("nimo-slurm"), VERSION, self.store, key))
        return self.folder / f"{blake2b(about.encode(), digest_size=16).hexdigest()}.json"
