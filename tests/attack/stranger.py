"""What a hostile user of a login node tries against the controller's port; prints what came of it.

python -c <this> HOST PORT MUNGE_SOCKET UID GID: our modules are loaded before the user is another.
Without MUNGE_SOCKET the port has TLS.
"""

import asyncio
import concurrent.futures.thread  # noqa: F401 - loaded while it can be read
import encodings.idna  # noqa: F401
import json
import os
import socket
import ssl
import sys
import time

import msgspec

from slurm_plugin.nimod.relay import frames, handshake
from slurm_plugin.nimod.relay.munge import Munge, MungeError

host, port, munge_socket = sys.argv[1], int(sys.argv[2]), sys.argv[3]
UID, GID = int(sys.argv[4]), int(sys.argv[5])
os.setgroups([])
os.setgid(GID)
os.setuid(UID)
TIMEOUT_S = 20
result: dict[str, object] = {}


async def connect() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection(host, port)


async def as_a_relay() -> None:
    """With a true credential of one's own, and a forged uid in what it says."""
    try:
        await handshake.introduce(*await connect(), Munge(munge_socket))
        result["as a relay"] = "linked"
    except frames.LinkError as error:
        result["as a relay"] = str(error)


async def with_bytes(name: str, data: bytes) -> None:
    """Send something instead of an introduction; give what comes back after the greeting."""
    reader, writer = await connect()
    try:
        if munge_socket:
            await reader.readline()
        writer.write(data)
        answer = await reader.read(1000)
    except ConnectionError:
        answer = b""
    result[name] = answer.decode(errors="replace")
    writer.close()


async def without_certificate() -> None:
    """With TLS, and no certificate, or one that the authority did not make."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        reader, writer = await asyncio.open_connection(host, port, ssl=context)
        writer.write(msgspec.json.encode(handshake.Introduction(host="login1")) + b"\n")
        result["without certificate"] = (await reader.read(1000)).decode()
    except OSError as error:
        result["without certificate"] = str(error)


async def forged() -> None:
    """With a credential that says something else."""
    credential = Munge(munge_socket).encode(b'{"side":"relay"}', for_uid=0)
    introduction = handshake.Introduction(host="login1", credential=credential)
    await with_bytes("forged", msgspec.json.encode(introduction) + b"\n")


async def crowd() -> None:
    """Take connections and say nothing, again and again."""
    ends = time.monotonic() + 3
    held: list[socket.socket] = []
    while time.monotonic() < ends:
        for one in held:
            one.close()
        held = [socket.create_connection((host, port), 2) for _ in range(64)]
        await asyncio.sleep(0.05)
    result["crowd"] = len(held)


def decodes(credential: str) -> str:
    try:
        Munge(munge_socket).decode(credential)
    except MungeError as error:
        return str(error)
    return "decoded"


async def main() -> None:
    async with asyncio.timeout(TIMEOUT_S):
        if munge_socket:
            await as_a_relay()
            await forged()
            result["decodes for root"] = decodes(Munge(munge_socket).encode(b"x", for_uid=0))
        else:
            await without_certificate()
        request = b'{"v":1,"op":"decide","job":{"user_id":0}}\n'
        await with_bytes("without a word", request)
        await with_bytes("without end", b"x" * 1_000_000)
        frame = (13 + 32 + len(request)).to_bytes(4, "big") + bytes(32 + 13) + request
        await with_bytes("a frame", frame)
        await crowd()


asyncio.run(main())
print(json.dumps(result))  # noqa: T201 - that is its result
