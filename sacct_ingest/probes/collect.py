"""Collect the sensors' measurements for the store."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from sacct_ingest.errors import ProbeError
from sacct_ingest.probes import wire
from sacct_ingest.probes.probe_settings import Member, ProbeSettings
from sacct_ingest.probes.wire import Message
from sacct_ingest.records import Probe, Resource


@dataclass(slots=True)
class Gathered:
    """Collected measurements, and the sensors that did not answer."""

    probes: list[Probe] = field(default_factory=list)
    unreachable: list[str] = field(default_factory=list)


class Collector:
    """Asks each sensor for its new measurements."""

    def __init__(
        self, members: Sequence[Member], settings: ProbeSettings, *, key: bytes = b""
    ) -> None:
        self._members, self._settings = members, settings
        self._ask = partial(wire.ask, key=key, timeout_s=settings.timeout_s)
        self._read: dict[str, tuple[str, int]] = {}

    def collect(self) -> Gathered:
        """Ask all sensors, and name those that do not answer."""
        gathered = Gathered()
        for member in self._members:
            try:
                gathered.probes.extend(self._of(member))
            except ProbeError as error:
                gathered.unreachable.append(str(error))
        return gathered

    def measure_now(self) -> Gathered:
        """Have all sensors measure at once, wait for them, and give their measurements.

        The wait ends when each has had the token and measured itself, or after the longest turns
        of all sensors.
        """
        waiting: dict[Member, Message] = {}
        gathered = Gathered()
        for member in self._members:
            try:
                waiting[member] = self._ask(member, {"op": "wake"})
            except ProbeError as error:
                gathered.unreachable.append(str(error))
        turn_s = self._settings.hold_s + self._settings.timeout_s
        give_up = time.monotonic() + len(self._members) * turn_s
        while waiting and time.monotonic() < give_up:
            for member, state in list(waiting.items()):
                try:
                    boot = state.get("boot", "")
                    now = self._ask(member, {"op": "series", "after": 2**62, "boot": boot})
                except ProbeError as error:
                    gathered.unreachable.append(str(error))
                    del waiting[member]
                    continue
                again = now.get("boot") != state.get("boot")
                if again or all(int(now[name]) > int(state[name]) for name in ("rounds", "locals")):
                    del waiting[member]
            if waiting:
                time.sleep(0.2)
        collected = self.collect()
        gathered.probes.extend(collected.probes)
        gathered.unreachable = list(dict.fromkeys([*gathered.unreachable, *collected.unreachable]))
        return gathered

    def _of(self, member: Member) -> Iterator[Probe]:
        more = True
        while more:
            boot, after = self._read.get(member.name, ("", 0))
            answer = self._ask(member, {"op": "series", "boot": boot, "after": after})
            self._read[member.name] = (str(answer["boot"]), int(answer["after"]))
            more = bool(answer.get("more"))
            yield from map(_probe, answer["probes"])


def _probe(values: dict[str, Any]) -> Probe:
    return Probe(**{**values, "resource": Resource(values["resource"])})
