"""``nimo serve``: run nimod, which answers the hooks and nimo-advise."""

import argparse

from msgspec.structs import replace

from slurm_plugin.cli.command_context import load_config
from slurm_plugin.config.settings import Config


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
