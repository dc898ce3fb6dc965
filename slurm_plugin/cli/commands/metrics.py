"""``nimo metrics``: export metrics to Prometheus."""

import argparse
import signal
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import Any

from sacct_ingest.errors import NimoError, how_to_install, system_errors
from sacct_ingest.files import atomic_file
from slurm_plugin.cli.command_context import load_config
from slurm_plugin.nimod import client
from slurm_plugin.store_access import open_store

_TIMEOUT_S = 2.0


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
