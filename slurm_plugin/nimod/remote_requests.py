"""Requests of users on login nodes: limited, named and answered like those of users here."""

from collections.abc import Callable
from functools import partial

from slurm_plugin.nimod.access import ConnectionLimiter, UserNames
from slurm_plugin.nimod.connection import Respond
from slurm_plugin.nimod.loop import Loop
from slurm_plugin.protocol.decision_messages import Answer
from slurm_plugin.protocol.lines import encode

Done = Callable[[bytes], None]


class RemoteRequests:
    """Gives them to the loop, one after the other.

    loop: that answers everybody.
    limiter: a request takes a place in it, as a connection here does.
    names: where names of users come from.
    respond: makes the answer to a line.
    """

    def __init__(
        self, loop: Loop, limiter: ConnectionLimiter, names: UserNames, respond: Respond
    ) -> None:
        self._loop = loop
        self._limiter = limiter
        self._names = names
        self._respond = respond

    def submit(self, line: bytes, uid: int, done: Done) -> None:
        """Have a request answered; ``done`` is called once, with nothing where none is due."""
        self._loop.call_in_turn(partial(self._begin, line, uid, done))

    def _begin(self, line: bytes, uid: int, done: Done) -> None:
        if self._names.cached(uid) is None and self._limiter.admit(uid) is not None:
            named = partial(self._named, line, uid, done)
            self._names.ask(uid, partial(self._loop.call_in_turn, named))
        else:
            self._answer(line, uid, self._limiter.admit(uid), done)

    def _named(self, line: bytes, uid: int, done: Done) -> None:
        self._answer(line, uid, self._limiter.admit_named(uid), done)

    def _answer(self, line: bytes, uid: int, account: int | None, done: Done) -> None:
        if account is None:
            error = f"user {uid} asks too much at the same time; try again in a moment"
            done(encode(Answer(ok=False, error=error)))
            return
        end = partial(self._end, account, done)
        try:
            reply = self._respond(line, uid)
        except BaseException:
            end(b"")
            raise
        if reply.query is None:
            end(reply.data)
        else:
            end = partial(self._end, account, done, taken=reply.taken)
            reply.query(lambda data: self._loop.call_soon(partial(end, data)))

    def _end(
        self, account: int, done: Done, data: bytes, taken: Callable[[], None] | None = None
    ) -> None:
        self._limiter.give_back(account)
        done(data)
        if taken is not None:
            taken()
