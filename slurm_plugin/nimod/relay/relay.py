"""The relay of a login node: users ask it as they ask nimod, and nimod on the controller answers.

It stores nothing, reads no database, and interprets no job.
"""

import socket
import time
from collections import Counter
from collections.abc import Sequence
from functools import partial

import msgspec

from sacct_ingest.errors import ConfigError
from slurm_plugin.config.setting_types import address
from slurm_plugin.config.settings import Config
from slurm_plugin.nimod.access import ConnectionLimiter, UserNames
from slurm_plugin.nimod.connection import Reply
from slurm_plugin.nimod.loop import Loop
from slurm_plugin.nimod.relay.handshake import release
from slurm_plugin.nimod.relay.uplink import Uplink
from slurm_plugin.nimod.supervision import answer_until_stopped, stop_at_signals
from slurm_plugin.protocol.advice_messages import VERSION
from slurm_plugin.protocol.decision_messages import Answer
from slurm_plugin.protocol.lines import encode
from slurm_plugin.protocol.request_messages import LONG_ANSWERS, Ask, decode_ask
from slurm_plugin.protocol.status_messages import Uplinks
from slurm_plugin.service.listening import bound_socket, notify
from slurm_plugin.service.request_rates import Rates

#: Long answers of one user that are made or not taken yet: each may have megabytes.
_UNTAKEN = 4
#: What only slurmctld asks, on its own host.
_NOT_HERE = ("decide", "reload")


def serve(config: Config, controllers: Sequence[str]) -> None:
    """Run a relay until SIGTERM or SIGINT.

    controllers: where nimod listens; empty: as configured.
    Raises ConfigError: there is no controller, or the socket cannot be made; MungeError: Munge's
        library is not installed.
    """
    named = controllers or config.relay.controllers
    if not named:
        raise ConfigError(
            "which controller? name it: nimo serve --relay HOST, or relay.controllers in nimo.yaml"
        )
    uplink = Uplink([address(one) for one in named], config.relay)
    Relay(config, uplink).run()


class Relay:
    """The process: local users on one side, links to controllers on the other."""

    def __init__(self, config: Config, uplink: Uplink) -> None:
        self._config = config
        self._uplink = uplink
        self._rates = Rates(config.access.requests_per_s)
        self._names = UserNames()
        self._untaken: Counter[int] = Counter()

    def run(self) -> None:
        """Start, answer until a signal, stop."""
        with bound_socket(self._config.socket, program="nimod or relay") as channel:
            loop = self._loop(channel)
            stop_at_signals(loop)
            self._uplink.start()
            try:
                answer_until_stopped(loop, self._config.socket)
            finally:
                notify("STOPPING=1")
                self._uplink.close()
                loop.close()

    def _loop(self, channel: socket.socket) -> Loop:
        limiter = ConnectionLimiter(
            limits=self._config.access,
            trusted=lambda _: False,
            respond=self.respond,
            names=self._names,
            later=lambda one: loop.call_soon(partial(loop.adopt_settled, one)),
        )
        loop = Loop(channel, limiter, clock=time.monotonic)
        return loop

    def respond(self, line: bytes, uid: int) -> Reply:
        """Answer one request line of a user, or have it answered on the controller."""
        if not self._rates.allow(self._names.account(uid), time.monotonic()):
            most = self._config.access.requests_per_s
            return _refused(f"more than {most:g} requests a second; wait a moment", last=True)
        if line.isspace():
            return Reply()
        try:
            ask = decode_ask(line)
        except msgspec.DecodeError as error:
            return _refused(str(error))
        if ask.v != VERSION:
            return _refused(f"version {ask.v}; this relay speaks {VERSION}")
        return self._reply(ask, line, uid)

    def _reply(self, ask: Ask, line: bytes, uid: int) -> Reply:
        if ask.op in _NOT_HERE:
            return _refused(f"{ask.op} is for the controller; this is a relay")
        if ask.op == "links":
            return Reply(encode(Uplinks(release=release(), links=self._uplink.state())))
        if ask.one_way:
            self._uplink.notify(line, uid)
            return Reply()
        if ask.op not in LONG_ANSWERS:
            return Reply(query=partial(self._uplink.ask, line, uid))
        account = self._names.account(uid)
        if self._untaken[account] >= _UNTAKEN:
            return _refused("too many questions wait; try again in a moment")
        self._untaken[account] += 1
        taken = partial(self._take, account)
        return Reply(query=partial(self._uplink.ask, line, uid), taken=taken)

    def _take(self, account: int) -> None:
        self._untaken[account] -= 1
        self._untaken += Counter()  # without those that have none


def _refused(error: str, *, last: bool = False) -> Reply:
    return Reply(encode(Answer(ok=False, error=error)), last=last)
