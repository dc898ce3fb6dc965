"""``nimo lab probe``: measure network, CPU and disk at intervals."""

import argparse
import json
import logging
import signal
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sacct_ingest.errors import ConfigError, ProbeError, StoreError, system_errors
from sacct_ingest.probes import wire
from sacct_ingest.probes.local import LocalProbes
from sacct_ingest.probes.network import measure_transfer
from sacct_ingest.probes.probe_settings import Cost, Member, ProbeSettings, cost, member
from sacct_ingest.probes.sensor import Sensor
from sacct_ingest.probes.wire import Message
from sacct_ingest.records import Probe, Resource
from slurm_plugin.cli.command_context import load_config, print_table
from slurm_plugin.config.settings import Config, SensorSettings
from slurm_plugin.service.listening import notify
from slurm_plugin.store_access import open_store
from slurm_plugin.text import table_columns as cols
from slurm_plugin.text.formatting import printable, wrapped
from slurm_plugin.text.terminal_size import terminal_width

if TYPE_CHECKING:
    from sacct_ingest.store import Store


#: Measurements that wait while the store is gone.
_MOST_WAITING = 200_000

#: Settings of the configuration that a sensor takes as they are.
_OF_SENSORS = (
    "period_s", "message_bytes", "echoes", "timeout_s", "hold_s", "spin_s", "spin_every",
    "disk_bytes",
)  # fmt: skip

_log = logging.getLogger(__name__)
_RATES = (Resource.BANDWIDTH, Resource.DISK_READ, Resource.DISK_WRITE, Resource.TRANSFER)
_TIMES = (Resource.LATENCY, Resource.DISK_LATENCY)
_UNITS = {
    **dict.fromkeys(_RATES, ("{:.4g} MB/s", 1e-6)),
    **dict.fromkeys(_TIMES, ("{:.4g} us", 1e6)),
    Resource.CPU: ("{:.3f} of a CPU", 1.0),
}


def tables() -> Sequence[cols.Table]:
    """Give what it prints, without rows."""
    return [probe_table([])]


def run(args: argparse.Namespace) -> int:
    """Serve, follow, show, or measure once."""
    config = load_config(args)
    members = [member(text) for text in args.host or config.probes.hosts]
    if args.cost:
        total = cost(settings_of(config.probes), max(1, len(members)))
        text = wrapped(describe_cost(total, config.probes), terminal_width())
        print(json.dumps(asdict(total)) if args.json else text)
    elif args.show:
        with open_store(config) as store:
            _print(store.probes.latest(), args)
    elif args.serve:
        _serve(args, config, members)
    elif args.follow:
        _follow(config, members)
    elif args.transfer:
        return _transfer(args, config, members)
    else:
        return _measure_once(args, config, members)
    return 0


def settings_of(probes: SensorSettings) -> ProbeSettings:
    """Give the settings of the sensors as the configuration has them."""
    given = {name: getattr(probes, name) for name in _OF_SENSORS}
    return ProbeSettings(
        **given, disk_folder=Path(probes.disk_folder) if probes.disk_folder else None
    )


def _serve(args: argparse.Namespace, config: Config, members: Sequence[Member]) -> None:
    probes = config.probes
    name = args.name or _host_name(members)
    where = member(args.bind or probes.bind)
    settings = settings_of(probes)
    clique = list(members) or [Member(name, where.host, where.port)]
    sensor = Sensor(clique, name, settings, bind=(where.host, where.port), key=_key(probes))
    text = describe_cost(cost(settings, len(clique)), probes)
    print(wrapped(text, terminal_width()), flush=True)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: threading.Thread(target=sensor.stop).start())
    sensor.run(ready=lambda: _ready(f"listening on {sensor.address[0]}:{sensor.address[1]}"))


def _follow(config: Config, members: Sequence[Member]) -> None:
    if not members:
        raise ConfigError("no sensors to collect from: list them in probes.hosts or with --host")
    collector = Collector(members, settings_of(config.probes), key=_key(config.probes))
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    waiting: list[Probe] = []
    with open_store(config, create=True) as store:
        _ready(f"collecting from {len(members)} sensors")
        while not stopped.is_set():
            gathered = collector.collect()
            for error in gathered.unreachable:
                _log.warning("sensor %s", error)
            waiting = store_measurements(store, [*waiting, *gathered.probes])
            stopped.wait(min(60.0, config.probes.period_s))


def store_measurements(store: "Store", waiting: list[Probe]) -> list[Probe]:
    """Store measurements; give those that have to wait for the store to come back."""
    try:
        new = store.probes.add(waiting)
    except StoreError as error:
        _log.warning("%s: %d measurements wait", error, len(waiting))
        return waiting[-_MOST_WAITING:]
    _log.info("%d measurements stored", new)
    return []


def _measure_once(args: argparse.Namespace, config: Config, members: Sequence[Member]) -> int:
    settings = settings_of(config.probes)
    with open_store(config, create=True) as store:
        if not members:
            probes = LocalProbes(args.name or socket.gethostname(), settings).measure()
            store.probes.add(probes)
            _print(probes, args)
            return 0
        gathered = Collector(members, settings, key=_key(config.probes)).measure_now()
        store.probes.add(gathered.probes)
        if not gathered.probes:
            raise ProbeError(f"no sensor answered: {'; '.join(gathered.unreachable)}")
        for error in gathered.unreachable:
            _log.warning("sensor %s", error)
        _print(newest(gathered.probes), args)
        return 0


def _transfer(args: argparse.Namespace, config: Config, members: Sequence[Member]) -> int:
    """Move a file to one host; a failure is stored, too, and the exit status is 1."""
    file, host = args.transfer
    target = next((each for each in members if each.name == host), None) or member(host)
    probes = measure_transfer(
        args.name or _host_name(members),
        target,
        Path(file),
        settings_of(config.probes),
        key=_key(config.probes),
    )
    with open_store(config, create=True) as store:
        store.probes.add(probes)
    _print(newest(probes), args)
    return 0 if probes[-1].value else 1


def _print(probes: Sequence[Probe], args: argparse.Namespace) -> None:
    if args.json:
        print(json.dumps([asdict(each) for each in probes]))
    else:
        print_table(probe_table(probes), args)


def _host_name(members: Sequence[Member]) -> str:
    """Name of this host as the clique has it: in full, or without its domain."""
    full = socket.gethostname()
    names = {each.name for each in members}
    short = full.partition(".")[0]
    return short if short in names else full


def _key(probes: SensorSettings) -> bytes:
    if not probes.key_file:
        return b""
    with system_errors(ConfigError, f"probes.key_file: {probes.key_file}"):
        key = Path(probes.key_file).read_bytes().strip()
    if len(key) < 16:
        raise ConfigError(
            f"probes.key_file: {probes.key_file}: {len(key)} bytes are no key; make one with "
            "'openssl rand -hex 32'"
        )
    return key


def _ready(text: str) -> None:
    print(text, flush=True)
    notify("READY=1")


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
        self._members = members
        self._settings = settings
        self._ask = partial(wire.ask, key=key, timeout_s=settings.timeout_s)
        self._read: dict[str, tuple[str, int]] = {}

    def collect(self) -> Gathered:
        """Ask all sensors, and name those that do not answer."""
        gathered = Gathered()
        for sensor in self._members:
            try:
                gathered.probes.extend(self._of(sensor))
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
        for sensor in self._members:
            try:
                waiting[sensor] = self._ask(sensor, {"op": "wake"})
            except ProbeError as error:
                gathered.unreachable.append(str(error))
        turn_s = self._settings.hold_s + self._settings.timeout_s
        give_up = time.monotonic() + len(self._members) * turn_s
        while waiting and time.monotonic() < give_up:
            for sensor, state in list(waiting.items()):
                try:
                    boot = state.get("boot", "")
                    now = self._ask(sensor, {"op": "series", "after": 2**62, "boot": boot})
                except ProbeError as error:
                    gathered.unreachable.append(str(error))
                    del waiting[sensor]
                    continue
                again = now.get("boot") != state.get("boot")
                if again or all(int(now[name]) > int(state[name]) for name in ("rounds", "locals")):
                    del waiting[sensor]
            if waiting:
                time.sleep(0.2)
        collected = self.collect()
        gathered.probes.extend(collected.probes)
        gathered.unreachable = list(dict.fromkeys([*gathered.unreachable, *collected.unreachable]))
        return gathered

    def _of(self, sensor: Member) -> Iterator[Probe]:
        more = True
        while more:
            boot, after = self._read.get(sensor.name, ("", 0))
            answer = self._ask(sensor, {"op": "series", "boot": boot, "after": after})
            self._read[sensor.name] = (str(answer["boot"]), int(answer["after"]))
            more = bool(answer.get("more"))
            for one in answer["probes"]:
                yield Probe(**{**one, "resource": Resource(one["resource"])})


def newest(probes: Sequence[Probe]) -> list[Probe]:
    """Give the newest measurement of each series."""
    latest = {
        (probe.resource, probe.source, probe.target): probe
        for probe in sorted(probes, key=lambda probe: probe.at_s)
    }
    return [latest[key] for key in sorted(latest)]


def probe_table(probes: Sequence[Probe]) -> cols.Table:
    """Measurements by the fields of a `Probe`, in their order; of one that failed, why.

    >>> print(probe_table([Probe(resource=Resource.LATENCY, source="n1", target="n2", at_s=0.0,
    ...     value=0.00025)]).text())
    resource  from  to  value
    latency   n1    n2  250 us
    """
    columns = [
        cols.Column("resource", "resource", lambda p: p.resource.value, left=True),
        cols.text_column("source", "from", as_text=cols.or_dash),
        cols.text_column("target", "to", as_text=cols.or_dash),
        cols.Column("at_s", "at", as_text=cols.MOMENT, worth=cols.ON_REQUEST),
        cols.text_column("value", "value", show=_value),
        cols.Column("size_bytes", "bytes", worth=cols.ON_REQUEST),
        cols.Column("took_s", "took", worth=cols.ON_REQUEST),
        cols.Column("error", "error", worth=cols.ON_REQUEST),
    ]
    return cols.Table(columns, probes)


def describe_cost(cost: Cost, settings: SensorSettings) -> str:
    """Describe the resources that the probes use."""
    lines = [
        f"network  {cost.pairs} pairs every {settings.period_s:g} s, {cost.bytes_per_pair} bytes"
        f" each, one at a time: {cost.network_bytes_per_hour / 1e6:.3g} MB/h,"
        f" {cost.link_share:.2g} of a link of 1 Gbit/s",
        f"cpu      {settings.spin_s:g} s of one CPU every"
        f" {settings.spin_every * settings.period_s:g} s: {cost.cpu_share:.2g} of it",
        f"disk     {cost.disk_bytes_per_hour / 1e6:.3g} MB/h on each host",
        f"in all   {cost.probes_per_hour:.4g} measurements an hour",
    ]
    return "\n".join(lines)


def amount(resource: Resource, value: float) -> str:
    """Write a value with its unit.

    >>> amount(Resource.BANDWIDTH, 2.5e6)
    '2.5 MB/s'
    """
    text, scale = _UNITS[resource]
    return text.format(value * scale)


def _value(probe: Probe) -> str:
    if probe.value is None:
        return printable(f"failed: {probe.error}")
    return amount(probe.resource, probe.value)
