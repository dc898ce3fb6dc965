"""Errors of earlier wait estimates, and the corrections that follow from them."""

import logging
from collections import deque
from math import inf
from typing import TYPE_CHECKING

import msgspec

from predictor.waits.calibration import (
    MOST_ENTRIES,
    WaitError,
    WaitRecord,
    decode_errors,
    encode_errors,
)
from predictor.waits.workload import PastRecord, QueuePast
from predictor.waits.workload import decode as decode_past

if TYPE_CHECKING:
    from predictor.waits.regression import QueueWaitFit

_log = logging.getLogger(__name__)
_SAVE_EVERY_S = 600.0


class WaitCorrections:
    """The record of errors, and the regression on the state of the queue if a refit made one.

    record: errors of the present method of estimation: a refit's of past jobs, then nimod's own.
    past: arrivals, use of limits, fair-share and waits of past jobs, from the last refit.
    """

    def __init__(self) -> None:
        self.record = WaitRecord()
        self.past = QueuePast()
        self._own: deque[WaitError] = deque(maxlen=MOST_ENTRIES)
        self._noted = self._saved = 0
        self._saved_s = -inf
        self._regression: QueueWaitFit | None = None

    def remember(self, payload: str) -> None:
        """Take the summary of past jobs that a refit stored."""
        try:
            self.past = decode_past(payload) if payload else QueuePast()
        except ValueError as error:
            _log.warning("%s", error)
            self.past = QueuePast()
        self._regression = None
        self._renew()

    def restore(self, payload: str) -> None:
        """Put the errors of earlier nimods, from the store, before those recorded since."""
        if not payload:
            return
        try:
            earlier = decode_errors(payload)
        except ValueError as error:
            _log.warning("%s; it begins anew", error)
            return
        self._own = deque([*earlier, *self._own], maxlen=MOST_ENTRIES)
        self._renew()

    def note(self, error: WaitError) -> None:
        """Record by how much an estimate was off."""
        noted = msgspec.structs.replace(error, corrected=bool(self.past.waits.correction))
        self._own.append(noted)
        self.record.add(noted)
        self._noted += 1

    def unsaved(self, *, now_s: float) -> str | None:
        """Give the record for the store where it has grown, now and then; None otherwise."""
        if self._noted == self._saved or now_s - self._saved_s < _SAVE_EVERY_S:
            return None
        self._saved, self._saved_s = self._noted, now_s
        return encode_errors(list(self._own))

    def regression(self) -> "QueueWaitFit | None":
        """Give the refit's regression; None where it was no better than the queue run forward."""
        if self.past.waits.correction and self._regression is None:
            # numpy takes its time to load, and no answer waits for it here.
            from predictor.waits.correction import correction_of  # noqa: PLC0415

            try:
                self._regression = correction_of(self.past.waits.correction)
            except ValueError as error:
                _log.warning("%s; waits are not corrected", error)
                self.past = msgspec.structs.replace(self.past, waits=PastRecord())
                self._renew()
        return self._regression

    def _renew(self) -> None:
        """Make the record anew: the refit's errors, then nimod's own.

        Errors made with a regression do not count without it, nor the other way round.
        """
        corrected = bool(self.past.waits.correction)
        own = [one for one in self._own if one.corrected == corrected]
        first_s = own[0].at_s if own else inf
        earlier = (one for one in self.past.waits.errors if one.at_s < first_s)
        self.record = WaitRecord([*earlier, *own])
