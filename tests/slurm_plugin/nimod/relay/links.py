"""A gateway and uplinks in this process, with munge that they believe."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from slurm_plugin.config.setting_types import Address
from slurm_plugin.config.settings import RelaySettings
from slurm_plugin.nimod.relay import gateway
from slurm_plugin.nimod.relay import relay as uplink
from slurm_plugin.nimod.relay.gateway import Gateway
from slurm_plugin.nimod.relay.relay import Uplink
from slurm_plugin.service.accountant import Account, Accountant
from tests.processes import LONGEST_WAIT_S, free_ports, wait_until
from tests.slurm_plugin.nimod.relay.credentials import As, Munged

HOST = "127.0.0.1"


def echo(line: bytes, uid: int, account: Account, done: Callable[[bytes], None]) -> None:
    done(b"%d:%s" % (uid, line))


class Links:
    """Gateways, and uplinks to them."""

    def __init__(self, patch: pytest.MonkeyPatch, stack: ExitStack) -> None:
        self.munged = Munged()
        self.patch = patch
        self.stack = stack

    def gateway(self, port: int, submit: Any = echo, uid: int | None = None, **given: Any) -> Any:
        """Listen on a port."""
        credentials = As(self.munged, os.geteuid() if uid is None else uid)
        self.patch.setattr(gateway, "Munge", lambda _: credentials)
        settings = given.pop("settings", None) or RelaySettings(listen=f"{HOST}:{port}")
        made = Gateway(
            settings,
            submit=submit,
            asked_s=given.pop("asked_s", lambda: None),
            accountant=given.pop("accountant", None) or Accountant(),
        )
        made.start()
        self.stack.callback(made.close)
        wait_until(lambda: _listens(port), what="the gateway")
        return made

    def uplink(
        self,
        *ports: int,
        up: bool = True,
        settings: RelaySettings | None = None,
        accountant: Accountant | None = None,
    ) -> Uplink:
        """Link to gateways; with settings by what they say, without by munge that is made up."""
        if settings is None:
            self.patch.setattr(uplink, "Munge", lambda _: As(self.munged, os.geteuid()))
        controllers = [Address("localhost" if settings else HOST, port) for port in ports]
        made = Uplink(controllers, settings or RelaySettings(), accountant or Accountant())
        made.start()
        self.stack.callback(made.close)
        if up:
            wait_until(lambda: all(not one.trouble for one in made.state()), what="the links")
        return made


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0


def asked(link: Uplink, line: bytes = b"line\n", uid: int = 7) -> tuple[bytes, float]:
    """Ask, wait, and give the answer with the seconds that it took."""
    answers: list[bytes] = []
    came = threading.Event()

    def done(data: bytes) -> None:
        answers.append(data)
        came.set()

    began = time.monotonic()
    link.ask(line, uid, done)
    assert came.wait(LONGEST_WAIT_S)
    return answers[0], time.monotonic() - began


@contextmanager
def listening(port: int) -> Iterator[socket.socket]:
    """A listener that is no gateway."""
    with socket.create_server((HOST, port)) as listener:
        listener.settimeout(LONGEST_WAIT_S)
        yield listener


def port() -> int:
    return free_ports(1)[0]
