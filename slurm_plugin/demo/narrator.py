"""Commands that are printed before they are run, so that one can repeat them."""

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TextIO

from sacct_ingest.errors import NimoError
from slurm_plugin.demo.sandbox import DemoSite
from slurm_plugin.nimod import client

_PATIENCE_S = 60.0
_MODULES = {"nimo": "slurm_plugin.cli.nimo", "nimo-advise": "slurm_plugin.cli.advise"}


@dataclass(frozen=True, slots=True)
class Narrator:
    """Runs commands in the demo's folder and prints each before its output."""

    site: DemoSite
    out: TextIO

    def say(self, text: str) -> None:
        """Print a paragraph."""
        print(f"\n{text}", file=self.out, flush=True)

    def show(self, *command: str, statuses: Sequence[int] = (0,)) -> None:
        """Print a command, run it, and let its output through.

        Raises NimoError: it ended with a status that is not among ``statuses``.
        """
        self.say(f"$ {shlex.join(command)}")
        done = subprocess.run(
            _argv(command), cwd=self.site.folder, env=self._env(), stdout=self.out, check=False
        )
        if done.returncode not in statuses:
            raise NimoError(f"{shlex.join(command)} ended with status {done.returncode}")
        if done.returncode:
            self.say(f"(exit status {done.returncode})")

    @contextmanager
    def background(self, *command: str) -> Iterator[None]:
        """Print a command and keep it running for as long as the block lasts."""
        self.say(f"$ {shlex.join(command)} &")
        process = subprocess.Popen(_argv(command), cwd=self.site.folder, env=self._env())
        try:
            self._await_nimod(process)
            yield
        finally:
            process.terminate()
            process.wait(timeout=_PATIENCE_S)

    def _await_nimod(self, process: "subprocess.Popen[bytes]") -> None:
        """Wait until nimod has read the tables and the state of the cluster."""
        end_s = time.monotonic() + _PATIENCE_S
        while not _ready(self.site):
            if process.poll() is not None or time.monotonic() > end_s:
                raise NimoError("nimod did not start: see what it says above")
            time.sleep(0.05)

    def _env(self) -> dict[str, str]:
        return os.environ | {
            "NIMO_CONFIG": str(self.site.config),
            "PATH": f"{self.site.stand_ins}{os.pathsep}{os.environ.get('PATH', '')}",
        }


def _argv(command: Sequence[str]) -> list[str]:
    call = f"import sys; from {_MODULES[command[0]]} import main; sys.exit(main())"
    return [sys.executable, "-c", call, *command[1:]]


def _ready(site: DemoSite) -> bool:
    try:
        status = client.status(site.socket, timeout_s=1.0)
    except client.Unreachable:
        return False
    return status.loaded_s is not None and status.snapshot_age_s is not None
