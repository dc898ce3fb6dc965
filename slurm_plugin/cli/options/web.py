"""Serve read-only pages of applications, decisions and replays to browsers, until stopped.

Without a proxy that authenticates, it listens on the loopback or on a Unix socket, and the kernel
identifies the user.  Users see their own jobs, admins all.  Needs the extra 'web'.
"""

from slurm_plugin.cli.command_context import Options

EXAMPLE = """\
  nimo web                          # for a proxy, or: ssh -L 8737:/run/nimo-web/web.sock
  nimo web --listen 127.0.0.1:8737  # http://127.0.0.1:8737/
  curl --unix-socket /run/nimo-web/web.sock http://localhost/applications"""


def add_arguments(add: Options) -> None:
    """Declare the options."""
    add(
        "--listen ADDRESS",
        "[HOST:]PORT or the path of a Unix socket (default: the configuration's web.listen)",
        default="",
    )
    add.shared("store", "config")
