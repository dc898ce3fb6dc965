"""Give Prometheus metrics of nimod, the store and the accuracy of predictions.

They are printed, written into a file for node_exporter's textfile collector, or served over HTTP
until a signal stops it.  Needs the extra 'metrics'.
"""

import argparse
import signal
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import Any

from sacct_ingest.errors import NimoError, how_to_install, system_errors
from sacct_ingest.files import atomic_file
from slurm_plugin.cli.command_context import Options, load_config
from slurm_plugin.nimod import client
from slurm_plugin.store_access import open_store

EXAMPLE = """\
  nimo metrics
  nimo metrics --textfile /var/lib/prometheus/node-exporter/nimo.prom
  nimo metrics --listen 127.0.0.1:9737"""
_TIMEOUT_S = 2.0


def add_arguments(add: Options) -> None:
    """Declare the options."""
    ways = add.one_of()
    ways("--textfile FILE", "write the metrics to this file (atomically)", type=Path)
    ways(
        "--listen [HOST:]PORT",
        "serve them at http://HOST:PORT/metrics (default HOST: 127.0.0.1)",
        type=_address,
    )
    add("--days DAYS", "days of decisions that the accuracy covers (default: 7)", default=7.0)
    add.shared("store", "config")


def run(args: argparse.Namespace) -> int:
    """Print, write or serve."""
    try:
        from prometheus_client import generate_latest  # noqa: PLC0415

        from slurm_plugin.nimod.prometheus_metrics import registry  # noqa: PLC0415
    except ImportError as error:
        raise NimoError(
            f"prometheus-client is not installed; {how_to_install('metrics')}"
        ) from error
    config = load_config(args)
    scheme, _, path = config.store_url.partition(":///")
    metrics = registry(
        partial(client.status, config.socket, timeout_s=_TIMEOUT_S),
        partial(open_store, config),
        days=args.days,
        file=Path(path) if scheme == "sqlite" else None,
    )
    with system_errors(NimoError, args.textfile or args.listen):
        if args.textfile:
            atomic_file.write(args.textfile, generate_latest(metrics), mode=0o644)
        elif args.listen:
            host, port = args.listen
            server, thread = serve(metrics, host, port)
            print(f"http://{host}:{server.server_port}/metrics", flush=True)
            stopped = Event()
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda *_: stopped.set())
            stopped.wait()
            server.shutdown()
            thread.join()
        else:
            print(generate_latest(metrics).decode(), end="")
    return 0


def serve(metrics: Any, host: str, port: int, *, idle_s: float = 10.0) -> tuple[Any, Thread]:
    """Start to serve a registry over HTTP; a connection on which nothing comes is closed."""
    from prometheus_client import start_http_server  # noqa: PLC0415

    server, thread = start_http_server(port, host, metrics)

    class Handler(server.RequestHandlerClass):  # type: ignore[misc, name-defined]
        timeout = idle_s

        def handle(self) -> None:
            with suppress(TimeoutError):
                super().handle()

    server.RequestHandlerClass = Handler
    return server, thread


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65_535:
        raise argparse.ArgumentTypeError(f"{text} is not HOST:PORT")
    return host.strip("[]") or "127.0.0.1", int(port)
