"""The token of a clique: only its holder may load the network.

As in the NWS, the hosts of a clique form a ring, and one token goes round.  Its holder measures
to all others, and passes it on.  Three rules keep the token going when hosts die:

- the host that passed the token on asks its successor now and then whether it still has it, and
  makes a new token when there is no answer twice;
- a host without a token for longer than a whole round can take makes a new one;
- each new token has a higher generation.  Every host remembers the highest that it met.  It takes
  neither an older token nor the probes of its holder, so that of two tokens one dies out.

A host that does not take the token is left out of the round, and gets a token of a new generation
if it ever comes back: it may or may not have taken the first one.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sacct_ingest.errors import ProbeError
from sacct_ingest.probes.probe_settings import Member, ProbeSettings
from sacct_ingest.probes.wire import Message, Superseded

Generation = tuple[int, int]  #: counter, and the place in the ring of the host that made it

_log = logging.getLogger(__name__)
_LOST_AFTER = 2  #: questions without an answer
_NONE: Generation = (0, 0)  #: no token has come yet


@dataclass(frozen=True, slots=True)
class Clique:
    """The hosts of a ring in their order, which of them this is, and how it talks to the others.

    ``ask`` sends one request to a member and gives its answer, or raises `ProbeError`.
    """

    members: Sequence[Member]
    me: int
    ask: Callable[[Member, Message], Message]

    def after(self, place: int) -> list[int]:
        """Places of all others than this host, the one after ``place`` first."""
        count = len(self.members)
        order = [(place + i) % count for i in range(1, count + 1)]
        return [each for each in order if each != self.me]


class Ring:
    """One host's part in passing the token; `run` is its thread, the rest is called by others.

    measure: called with the token's generation and the monotonic time until which it may take.
    """

    def __init__(
        self, clique: Clique, settings: ProbeSettings, measure: Callable[[Generation, float], None]
    ) -> None:
        self._clique = clique
        self._settings = settings
        self._measure = measure
        self._changed = threading.Condition()
        self._newest: Generation = _NONE
        self._offered: Generation | None = None
        self._held: Generation | None = None
        self._watched: int | None = None
        self._unanswered = 0
        self._due = time.monotonic()
        # In a running ring a token comes before this time; in a new ring the first host begins.
        self._patience_s = settings.timeout_s * (1 + clique.me)
        self._last_message_s = time.monotonic()
        self.rounds = 0
        if len(clique.members) == 1:
            self.offer(self._next_generation())  # there is nobody who could have the token

    # --- what other hosts ask -----------------------------------------------------------------

    def offer(self, generation: Generation) -> Generation | None:
        """Take a token; the generation of a newer one if it is stale."""
        with self._changed:
            if generation < self._newest:
                return self._newest
            self._newest = self._offered = generation
            self._note_token()
            self._changed.notify_all()
            return None

    def admit(self, generation: Generation) -> Generation | None:
        """Let the holder of a token probe us; the generation of a newer one if it may not."""
        with self._changed:
            if generation < self._newest:
                return self._newest
            self._adopt(generation)
            return None

    def holds(self, generation: Generation) -> bool:
        """Whether this token is here."""
        with self._changed:
            return generation in (self._offered, self._held)

    @property
    def holding(self) -> bool:
        """Whether a token is here."""
        with self._changed:
            return self._held is not None or self._offered is not None

    def wake(self) -> None:
        """Measure as soon as the token is here, without waiting for the period to end."""
        with self._changed:
            self._due = time.monotonic()
            self._changed.notify_all()

    # --- the thread ---------------------------------------------------------------------------

    def run(self, stopped: threading.Event) -> None:
        """Wait for the token, use it, pass it on, until it is stopped."""
        while not stopped.is_set():
            generation = self._await_token()
            if generation is None:
                self._look_after_token()
                continue
            try:
                if self._await_due(generation, stopped):
                    self._measure(generation, time.monotonic() + self._settings.hold_s)
                    self._due = time.monotonic() + self._settings.period_s
                    self.rounds += 1
                self._pass_on(generation, self._clique.me, stopped)
            except Superseded as newer:
                self._adopt(newer.generation)
            finally:
                self._held = None

    def superseded(self, generation: Generation) -> bool:
        """Whether a newer token is about."""
        return self._newest > generation

    def _await_token(self) -> Generation | None:
        with self._changed:
            if self._offered is None:
                self._changed.wait(self._settings.timeout_s)
            self._held = self._offered
            self._offered = None
            return self._held

    def _await_due(self, generation: Generation, stopped: threading.Event) -> bool:
        """Wait for the next measurement's time; False: there is a newer token, or no time."""
        with self._changed:
            while not stopped.is_set() and not self.superseded(generation):
                left = self._due - time.monotonic()
                if left <= 0:
                    return True
                self._changed.wait(min(left, 1.0))
            return False

    def _pass_on(self, generation: Generation, after: int, stopped: threading.Event) -> None:
        """Give the token to the first host after this place that takes it."""
        for place in self._clique.after(after):
            if stopped.is_set() or self.superseded(generation):
                return
            try:
                self._ask(place, {"op": "token", "generation": list(generation)})
            except Superseded:
                raise
            except ProbeError as error:
                _log.info("the token passes by %s", error)
                generation = self._next_generation()
            else:
                with self._changed:
                    self._watched = place
                    self._unanswered = 0
                    self._note_token()
                return
        # No other host is there: a ring of one.
        self.offer(generation)

    def _look_after_token(self) -> None:
        """Make a new token where the last one is lost."""
        after = self._clique.me
        if self._watched is not None:
            after = self._watched
            if not self._successor_is_lost():
                return
        elif time.monotonic() - self._last_message_s < self._patience_s:
            return
        self._watched = None
        if self._newest > _NONE:
            _log.warning("the token is lost: a new one is made")
        self._start_again(after)

    def _start_again(self, after: int) -> None:
        generation = self._next_generation()
        if after == self._clique.me:
            self.offer(generation)
            return
        self._held = generation
        try:
            self._pass_on(generation, after, threading.Event())
        except Superseded as newer:
            self._adopt(newer.generation)
        finally:
            self._held = None

    def _successor_is_lost(self) -> bool:
        place = self._watched
        if place is None:
            return False
        generation = self._newest
        try:
            answer = self._ask(place, {"op": "holds", "generation": list(generation)})
        except ProbeError:
            self._unanswered += 1
            return self._unanswered >= _LOST_AFTER
        self._unanswered = 0
        if not answer.get("holds"):
            self._watched = None
        return False

    def _ask(self, place: int, request: Message) -> Message:
        return self._clique.ask(self._clique.members[place], request)

    def _next_generation(self) -> Generation:
        with self._changed:
            self._newest = (self._newest[0] + 1, self._clique.me)
            return self._newest

    def _adopt(self, generation: Generation) -> None:
        with self._changed:
            self._newest = max(self._newest, generation)
            self._note_token()

    def _note_token(self) -> None:
        """Note that a token came: it must be back within a period and the turns of all hosts."""
        settings = self._settings
        count = len(self._clique.members)
        self._last_message_s = time.monotonic()
        turn_s = settings.hold_s + settings.timeout_s * (count + self._clique.me)
        self._patience_s = settings.period_s + count * turn_s
