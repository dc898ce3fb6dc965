"""What estimated waits were off by, in the past and since nimod began, and what follows from it."""

import logging
from collections import deque
from math import inf
from typing import TYPE_CHECKING

import msgspec

from predictor.queue_past import PastRecord, QueuePast
from predictor.queue_past import decode as decode_past
from predictor.wait_record import MOST_ENTRIES, WaitError, WaitRecord, decode_errors, encode_errors

if TYPE_CHECKING:
    from predictor.queue_wait import QueueWaitFit

_log = logging.getLogger(__name__)
_SAVE_EVERY_S = 600.0


class WaitCorrections:
    """The record of waits, and the regression on the state of the queue where one was nearer.

    Attributes
    ----------
    record
        Errors of the present way of estimating: a refit's of the past, then nimod's own.
    past
        What the last refit found of the cluster's past.
    """

    def __init__(self) -> None:
        self.record = WaitRecord()
        self.past = QueuePast()
        self._own: deque[WaitError] = deque(maxlen=MOST_ENTRIES)
        self._noted = self._saved = 0
        self._saved_s = -inf
        self._fit: QueueWaitFit | None = None

    def remember(self, payload: str) -> None:
        """Take what a refit found of the cluster's past."""
        try:
            self.past = decode_past(payload) if payload else QueuePast()
        except ValueError as error:
            _log.warning("%s", error)
            self.past = QueuePast()
        self._fit = None
        self._renew()

    def restore(self, payload: str) -> None:
        """Put what was recorded before nimod began before what it has recorded since."""
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

    def fit(self) -> "QueueWaitFit | None":
        """Give what a refit learned of the queue's state; None: nothing that was nearer."""
        if self.past.waits.correction and self._fit is None:
            # numpy takes its time to load, and no answer waits for it here.
            from predictor.wait_correction import correction_of  # noqa: PLC0415

            try:
                self._fit = correction_of(self.past.waits.correction)
            except ValueError as error:
                _log.warning("%s; waits are not corrected", error)
                self.past = msgspec.structs.replace(self.past, waits=PastRecord())
                self._renew()
        return self._fit

    def _renew(self) -> None:
        """Begin with what a refit made of the past; errors of the present way of estimating count.

        The correction that a refit learned changes what estimates are off by.
        """
        corrected = bool(self.past.waits.correction)
        own = [one for one in self._own if one.corrected == corrected]
        first_s = own[0].at_s if own else inf
        earlier = (one for one in self.past.waits.errors if one.at_s < first_s)
        self.record = WaitRecord([*earlier, *own])
