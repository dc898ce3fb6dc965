"""Munge without munged, and with it, for tests."""

from __future__ import annotations

import secrets
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from slurm_plugin.nimod.relay.munge import MungeError
from tests.cluster.host import real
from tests.processes import LONGEST_WAIT_S, wait_until


@dataclass
class Munged:
    """What the hosts of a cluster have in common."""

    made: dict[str, tuple[bytes, int, int]] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)


@dataclass
class As:
    """Munge as a process of this uid has it."""

    munged: Munged
    uid: int

    def encode(self, payload: bytes, *, for_uid: int) -> str:
        credential = secrets.token_hex(8)
        self.munged.made[credential] = (payload, self.uid, for_uid)
        return credential

    def decode(self, credential: str) -> tuple[bytes, int]:
        if credential not in self.munged.made:
            raise MungeError("munge: Invalid credential")
        if credential in self.munged.used:
            raise MungeError("munge: Replayed credential")
        payload, maker, for_uid = self.munged.made[credential]
        if for_uid != self.uid:
            raise MungeError("munge: Unauthorized credential")
        self.munged.used.add(credential)
        return payload, maker


@contextmanager
def munged(folder: Path) -> Iterator[str]:
    """Run a real munged with a key of its own; give its socket."""
    folder.mkdir(mode=0o755, exist_ok=True)
    (folder / "key").write_bytes(secrets.token_bytes(128))
    (folder / "key").chmod(0o600)
    argv = [real("munged"), "--foreground", "--force", f"--socket={folder}/socket"]
    argv += [f"--key-file={folder}/key", f"--pid-file={folder}/pid", f"--seed-file={folder}/seed"]
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until((folder / "socket").exists, what="munged")
        yield str(folder / "socket")
    finally:
        process.terminate()
        process.wait(LONGEST_WAIT_S)
