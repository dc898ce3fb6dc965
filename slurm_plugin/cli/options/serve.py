"""Run nimod: answer the hooks and nimo-advise on a Unix socket until a signal stops it.

With --relay, on a login node, it passes users' requests on to nimod on the controller.

SIGTERM stops it once all decisions are stored.  SIGHUP makes it read settings and tables again.
If the new settings have an error, it logs that and continues with the old ones.
"""

from slurm_plugin.cli.command_context import Options

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
