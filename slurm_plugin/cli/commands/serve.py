"""Run nimod: answer the hooks and nimo-advise on a Unix socket until a signal stops it.

With --relay, on a login node, it passes users' requests on to nimod on the controller.

SIGTERM stops it once all decisions are stored.  SIGHUP makes it read settings and tables again.
If the new settings have an error, it logs that and continues with the old ones.
"""

import argparse

from msgspec.structs import replace

from slurm_plugin.cli.command_context import Options, load_config
from slurm_plugin.config.settings import Config

EXAMPLE = "  nimo serve\n  nimo serve --config ./nimo.yaml -v\n  nimo serve --relay ctl1,ctl2"


def add_arguments(add: Options) -> None:
    """Declare the options."""
    add("--socket PATH", "listen on this socket instead of the configured one", default="")
    add(
        "--relay HOST[:PORT]",
        "relay to nimod on these hosts, with commas between them (default: relay.controllers)",
        nargs="?",
        const="",
    )
    add.shared("store", "config")


def run(args: argparse.Namespace) -> int:
    """Serve until a signal ends it."""
    if args.relay is not None:
        from slurm_plugin.nimod.relay import relay  # noqa: PLC0415 - only on login nodes

        relay.serve(_settings(args), [one for one in args.relay.split(",") if one])
        return 0
    from slurm_plugin.nimod.daemon import serve  # noqa: PLC0415 - heavy, and --help needs none

    serve(_settings(args), lambda: _settings(args))
    return 0


def _settings(args: argparse.Namespace) -> Config:
    config = load_config(args)
    return replace(config, socket=args.socket) if args.socket else config
