"""What one attacker does, a program: ``_attackers.py ACT SOCKET SECONDS UID [PORT MUNGE]``.

It becomes that user before it begins; links and notices are those of a login node's root.
"""

import asyncio
import json
import os
import pwd
import resource
import socket
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slurm_plugin.nimod.relay.frames import Link

ROOT = Path(__file__).resolve().parents[1]
NODES = ",".join(f"n{number % 8 + 1}" for number in range(3000))
SCRIPT = "#!/bin/sh\n" + "".join(f"#SBATCH --comment=x{n}\n" for n in range(300))
SCRIPT += "".join(f"srun ./solve {n} ${{X}} $(cat f{n})\n" for n in range(2500))
SCRIPT = SCRIPT[:120_000]
OPTIONS = {
    "nodes": "1-8",
    "time": "50",
    "job-name": "solve",
    "comment": "nimo:app=cfd,nodes=1-8",
    "partition": ",".join(["batch", "small"] * 300),
    "exclude": NODES,
    "constraint": "plain" + "&plain" * 400,
    "licenses": "a," * 1500,
}
#: First of an account's subordinate uids.
_SUBORDINATE = 200_000


def line(**fields: object) -> bytes:
    """Announce a command with the longest legal texts."""
    texts: dict[str, object] = {"options": OPTIONS, "argv": ["solve.sh"], "script": SCRIPT}
    command = {"program": "sbatch", **texts, "hook": 1, "work_dir": "/tmp"}
    return json.dumps({"v": 1, "op": "prepare", "command": command, **fields}).encode() + b"\n"


def burn(path: str, end_s: float) -> int:
    """Use a processor and nothing else: what the others' work costs on so few cores."""
    del path
    times = 0
    while time.time() < end_s:
        times += 1
    return times


def short_connections(path: str, end_s: float) -> int:
    """Announce commands without waiting, each on a connection of its own."""
    times, announced = 0, line(one_way=True, ticket="0123456789ab")
    while time.time() < end_s:
        with socket.socket(socket.AF_UNIX) as channel, suppress(OSError):
            channel.settimeout(1.0)
            channel.connect(path)
            channel.sendall(announced)
            times += 1
    return times


def heavy_questions(path: str, end_s: float) -> int:
    """Ask what takes longest of all that is legal, again and again."""
    times, asked = 0, line()
    while time.time() < end_s:
        with socket.socket(socket.AF_UNIX) as channel, suppress(OSError):
            channel.settimeout(2.0)
            channel.connect(path)
            channel.sendall(asked)
            channel.recv(65_536)
            times += 1
    return times


def subordinate_uids(path: str, end_s: float) -> int:
    """Connect as one subordinate uid of an account after the other."""
    times, held = 0, []
    while time.time() < end_s:
        os.setresuid(-1, _SUBORDINATE + times % 60_000, 0)
        for _ in range(3):
            channel = socket.socket(socket.AF_UNIX)
            channel.settimeout(1.0)
            with suppress(OSError):
                channel.connect(path)
            held.append(channel)
        os.setresuid(-1, 0, 0)
        while len(held) > 600:
            held.pop(0).close()
        times += 1
    return times


async def links(end_s: float, port: int, munge: str) -> int:
    """Make as many links as there can be, and keep them."""
    from slurm_plugin.nimod.relay import frames  # noqa: PLC0415 - of the project

    linked: list[_Linked] = []
    while time.time() < end_s:
        for made in await asyncio.gather(*(_linked(port, munge) for _ in range(8))):
            if made is None:
                await asyncio.sleep(0.05)
            else:
                linked.append(made)
        for made in linked:
            made.link.send(frames.Frame(frames.Kind.PING))
    return len(linked)


async def notices(end_s: float, port: int, munge: str) -> int:
    """Send notices that cost more to read than to send, in the names of all users."""
    from slurm_plugin.nimod.relay import frames  # noqa: PLC0415 - of the project

    fields = b",".join(b'"%x":""' % number for number in range(20_000))
    notice = b'{"v":1,"op":"status","command":{"options":{' + fields + b"}}}\n"
    uids = [user.pw_uid for user in pwd.getpwall() if user.pw_uid]
    times = 0
    while time.time() < end_s:
        made = await _linked(port, munge)
        while made is not None and time.time() < end_s:
            uid = uids[times % len(uids)]
            made.link.send(frames.Frame(frames.Kind.NOTICE, 0, uid, notice))
            with suppress(OSError):
                await asyncio.wait_for(made.writer.drain(), 1.0)
            times += 1
    return times


@dataclass(frozen=True, slots=True)
class _Linked:
    """A link to nimod, and where its bytes go."""

    link: "Link"
    writer: asyncio.StreamWriter


async def _linked(port: int, munge: str) -> "_Linked | None":
    from slurm_plugin.nimod.relay.handshake import LONGEST_LINE, introduce  # noqa: PLC0415
    from slurm_plugin.nimod.relay.munge import Munge  # noqa: PLC0415

    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=LONGEST_LINE)
        link, _ = await asyncio.wait_for(introduce(reader, writer, Munge(munge)), 3.0)
    except Exception:  # whatever keeps it out
        return None
    return _Linked(link, writer)


def main() -> None:
    """Do one act for so many seconds; print how often."""
    act, path, end_s, uid = sys.argv[1], sys.argv[2], time.time() + float(sys.argv[3]), sys.argv[4]
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if act in ("links", "notices"):
        sys.path.insert(0, str(ROOT))
        work = globals()[act](end_s, int(sys.argv[5]), sys.argv[6])
        print(asyncio.run(work), flush=True)
        return
    if act != "subordinate_uids":
        os.setgroups([])
        os.setuid(int(uid))
    print(globals()[act](path, end_s), flush=True)


if __name__ == "__main__":
    main()
