"""Decisions that lie ready for job_submit: a small file each, beside nimod's socket.

Only nimod writes there, in memory as a rule (``/run``).  Others may open a file whose name they
know: slurmctld's user, who need not be ours, and the job's own user, who made the ticket.
"""

import logging
import os
import re
import shutil
from contextlib import suppress
from pathlib import Path

from sacct_ingest.files import atomic_file
from slurm_plugin.decision.tickets import TicketKey
from slurm_plugin.protocol.decision_messages import ReadyDecision
from slurm_plugin.protocol.lines import encode

_log = logging.getLogger(__name__)
_TICKET = re.compile(r"[0-9a-f]{12}")
_FOLDER_MODE, _FILE_MODE = 0o711, 0o644


def is_ticket(text: str) -> bool:
    """Whether a ticket that somebody made is like ours."""
    return _TICKET.fullmatch(text) is not None


class ReadyDecisions:
    """Folder of decisions that need no request.

    socket: path of nimod's socket; the hooks look beside it.
    """

    def __init__(self, socket: Path) -> None:
        self._folder = socket.parent / "ready"
        self._usable = False

    def open(self) -> None:
        """Begin with an empty folder; without one, job_submit asks as ever."""
        self.close()
        try:
            self._folder.mkdir()
            self._folder.chmod(_FOLDER_MODE)
        except OSError as error:
            _log.warning("%s: no decision will lie ready there: %s", self._folder, error)
        else:
            self._usable = True

    def close(self) -> None:
        """Delete everything: another nimod has no record of it."""
        self._usable = False
        shutil.rmtree(self._folder, ignore_errors=True)

    def publish(self, key: TicketKey, decision: ReadyDecision | None) -> None:
        """Put a decision there, or take it away."""
        if not self._usable:
            return
        path = f"{self._folder}/{key[0]}-{key[1]}"
        if decision is None:
            with suppress(OSError):
                os.unlink(path)  # noqa: PTH108 - for each job
            return
        try:
            atomic_file.write(Path(path), encode(decision), mode=_FILE_MODE, synced=False)
        except OSError as error:
            _log.debug("%s: %s", path, error)
