"""Measure network, CPU and disk as the Network Weather Service does, and store the series.

Sensors run on the hosts (--serve).  Without an option each sensor measures once.  Where no hosts
are configured, only this host's CPU and disk are measured.
"""

from __future__ import annotations

import argparse
import json
import logging
import signal
import socket
import threading
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from sacct_ingest.errors import ConfigError, ProbeError, StoreError
from sacct_ingest.probes.collect import Collector
from sacct_ingest.probes.local import LocalProbes
from sacct_ingest.probes.probe_settings import Member, ProbeSettings, cost, member
from sacct_ingest.probes.sensor import Sensor
from sacct_ingest.probes.transfer_probe import measure_transfer
from sacct_ingest.records import Probe
from slurm_plugin.cli.command_context import add_table_of_store, load_config, print_table
from slurm_plugin.config.settings import Config, SensorSettings
from slurm_plugin.experiments import probe_text as words
from slurm_plugin.service.listening import notify
from slurm_plugin.store_access import open_store
from slurm_plugin.text.formatting import wrapped
from slurm_plugin.text.table_columns import terminal_width

if TYPE_CHECKING:  # the database is heavy, and --help needs none
    from sacct_ingest.store import Store

EXAMPLE = """\
  nimo probe
  nimo probe --cost
  nimo probe --serve --name n1
  nimo probe --follow
  nimo probe --transfer /scratch/input.dat n2
  nimo probe --show -P
  nimo probe --show --sort=-at -o at,source,target,value"""
#: Measurements that wait while the store is gone.
_MOST_WAITING = 200_000

#: Settings of the configuration that a sensor takes as they are.
_OF_SENSORS = (
    "period_s", "message_bytes", "echoes", "timeout_s", "hold_s", "spin_s", "spin_every",
    "disk_bytes",
)  # fmt: skip

_log = logging.getLogger(__name__)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--serve", action="store_true", help="run this host's sensor")
    what.add_argument(
        "--follow", action="store_true", help="store what the sensors measure, until stopped"
    )
    what.add_argument("--show", action="store_true", help="print the newest value of each series")
    what.add_argument(
        "--cost", action="store_true", help="print the network, CPU and disk use of the probes"
    )
    what.add_argument(
        "--transfer",
        nargs=2,
        metavar=("FILE", "HOST"),
        help="probe the path to a host, send it a file that it discards, and store both",
    )
    parser.add_argument(
        "--host",
        metavar="NAME=HOST:PORT",
        action="append",
        default=[],
        help="host to probe; repeat it, in the order of the ring (default: probes.hosts)",
    )
    parser.add_argument("--name", default="", help="this host's name (default: its host name)")
    parser.add_argument(
        "--bind", metavar="HOST:PORT", default="", help="address on which the sensor listens"
    )
    add_table_of_store(parser)


def run(args: argparse.Namespace) -> int:
    """Serve, follow, show, or measure once."""
    config = load_config(args)
    members = [member(text) for text in args.host or config.probes.hosts]
    if args.cost:
        total = cost(settings_of(config.probes), max(1, len(members)))
        text = wrapped(words.describe_cost(total, config.probes), terminal_width())
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
    text = words.describe_cost(cost(settings, len(clique)), probes)
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


def store_measurements(store: Store, waiting: list[Probe]) -> list[Probe]:
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
        for error in gathered.unreachable:
            _log.warning("sensor %s", error)
        if not gathered.probes:
            raise ProbeError(f"no sensor answered: {'; '.join(gathered.unreachable)}")
        _print(words.newest(gathered.probes), args)
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
    _print(words.newest(probes), args)
    return 0 if probes[-1].value else 1


def _print(probes: Sequence[Probe], args: argparse.Namespace) -> None:
    if args.json:
        print(json.dumps([asdict(each) for each in probes]))
    else:
        print_table(words.probe_table(probes), args)


def _host_name(members: Sequence[Member]) -> str:
    """Name of this host as the clique has it: in full, or without its domain."""
    full = socket.gethostname()
    names = {each.name for each in members}
    short = full.partition(".")[0]
    return short if short in names else full


def _key(probes: SensorSettings) -> bytes:
    if not probes.key_file:
        return b""
    try:
        key = Path(probes.key_file).read_bytes().strip()
    except OSError as error:
        raise ConfigError(f"probes.key_file: {probes.key_file}: {error.strerror}") from error
    if len(key) < 16:
        raise ConfigError(
            f"probes.key_file: {probes.key_file}: {len(key)} bytes are no key; make one with "
            "'openssl rand -hex 32'"
        )
    return key


def _ready(text: str) -> None:
    print(text, flush=True)
    notify("READY=1")
