"""nimod of the demo: started, left running, and stopped."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from sacct_ingest.errors import NimoError
from slurm_plugin.demo.sandbox import DemoSite
from slurm_plugin.nimod import client

#: Where the programs of the demo begin.
MODULES: Final = {"nimo": "slurm_plugin.cli.nimo", "nimo-advise": "slurm_plugin.cli.advise"}
#: Seconds in which nimod starts, reads, or stops.
PATIENCE_S: Final = 60.0
#: A nimod that was left running ends by itself after so long.
_LONGEST: Final = "8h"
_PAUSE_S: Final = 0.05


def start(site: DemoSite, environment: dict[str, str]) -> None:
    """Start nimod, and leave it running.

    Raises NimoError: it did not start.
    """
    call = f"import sys; from {MODULES['nimo']} import main; sys.exit(main())"
    limit = ["timeout", _LONGEST] if shutil.which("timeout") else []
    argv = [*limit, sys.executable, "-c", call, "serve", "--config", str(site.config)]
    with site.log.open("w") as log:
        process = subprocess.Popen(
            argv,
            cwd=site.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    site.pid.write_text(f"{process.pid}\n")
    await_nimod(site, process)


def await_nimod(site: DemoSite, process: "subprocess.Popen[bytes]") -> None:
    """Wait until nimod has read the tables and the state of the cluster.

    Raises NimoError: it did not start.
    """

    def ready() -> bool:
        if process.poll() is not None:
            raise NimoError("nimod did not start: see what it says above")
        status = client.status(site.socket, timeout_s=1.0)
        return status.loaded_s is not None and status.snapshot_age_s is not None

    _await(ready, "nimod did not start: see what it says above")


def reload(site: DemoSite) -> None:
    """Have nimod read the tables that were fitted, and wait until it has.

    Raises NimoError: it does not.
    """
    since_s = time.time()
    client.status(site.socket, reload=True, timeout_s=5.0)

    def loaded() -> bool:
        return (client.status(site.socket, timeout_s=5.0).loaded_s or 0.0) > since_s

    _await(loaded, "nimod does not read the tables: see what it says above")


def await_decisions(site: DemoSite) -> None:
    """Wait until nimod has written its decisions: a run is recognised by its decision's script.

    Raises NimoError: it does not; slurm_plugin.nimod.client.Unreachable: it does not run.
    """
    client.status(site.socket, timeout_s=5.0)

    def written() -> bool:
        return not client.status(site.socket, timeout_s=5.0).decisions_pending

    _await(written, "nimod writes no decisions: see what it says above")


def stop(site: DemoSite) -> bool:
    """Stop the nimod that an earlier demo left running; gives whether there was one."""
    with suppress(OSError, ValueError):
        pid = int(site.pid.read_text())
        words = Path("/proc", str(pid), "cmdline").read_bytes().split(b"\0")
        site.pid.unlink()
        # Another process may have the number by now.
        if os.fsencode(site.config) not in words:
            return False
        os.kill(pid, signal.SIGTERM)
        _await(lambda: not site.socket.exists(), "nimod of an earlier demo does not stop")
        return True
    return False


def _await(holds: Callable[[], bool], otherwise: str) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < end_s:
        with suppress(client.Unreachable):
            if holds():
                return
        time.sleep(_PAUSE_S)
    raise NimoError(otherwise)
