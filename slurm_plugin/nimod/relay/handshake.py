"""How relay and controller prove to each other who they are.

The controller greets with a random number.  With munge, the relay answers with a credential that
only the controller's user can decode, and the controller with one that only the relay's user can;
each credential holds half of the keys that seal all frames, and what the other side said before.
So neither can be forged, taken from another connection, or passed on by somebody in between who
wants to change what follows.  With TLS, certificates of the site do all this.
"""

import asyncio
import hashlib
import hmac
import os
import pwd
import secrets
import socket
import ssl
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from fnmatch import fnmatchcase
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from slurm_plugin.config.settings import Tls
from slurm_plugin.nimod.relay.frames import (
    LONGEST_ANSWER,
    LONGEST_REQUEST,
    FrameSeal,
    Link,
    LinkError,
)
from slurm_plugin.nimod.relay.munge import Munge, MungeError
from slurm_plugin.protocol.version import VERSION

LINK_VERSION = 1
LONGEST_LINE = 16 * 2**10  #: of the handshake
_RELAY, _NIMOD = "relay", "nimod"
_SHOWN = 200  #: characters of a peer's words


class Greeting(msgspec.Struct, kw_only=True):
    """What a controller says first."""

    link: int = LINK_VERSION
    v: int = VERSION
    release: str = ""
    auth: Literal["munge", "tls"] = "munge"
    uid: int = 0  #: that nimod runs as
    nonce: str = ""
    now_s: float = 0.0


class Introduction(msgspec.Struct, kw_only=True):
    """What a relay answers."""

    link: int = LINK_VERSION
    v: int = VERSION
    host: str = ""
    credential: str = ""


class Welcome(msgspec.Struct, kw_only=True):
    """What a controller says in the end: a credential of its own, or why the relay is refused."""

    credential: str = ""
    error: str = ""


class _Proof(msgspec.Struct, kw_only=True):
    """Payload of a credential."""

    side: str
    about: str  #: the controller's nonce; in its answer the digest of the relay's proof
    key: bytes


@cache
def release() -> str:
    """Give this program's release; reads files once."""
    return version("nimo-slurm")


async def introduce(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, munge: Munge | None
) -> tuple[Link, Greeting]:
    """Make a link of a connection to a controller.

    munge: none: the connection is TLS, with the certificate of the controller checked.
    Raises LinkError: the controller is not what it says, refuses, or has another release; OSError,
        EOFError: the connection is cut.
    """
    greeting = await _read(reader, Greeting)
    if (greeting.link, greeting.v) != (LINK_VERSION, VERSION):
        raise LinkError(
            f"it is release {greeting.release[:_SHOWN]!r}, this relay {release()}; "
            "install the same release of NIMO on both"
        )
    ours = "tls" if munge is None else "munge"
    if greeting.auth != ours:
        raise LinkError(
            f"it wants {greeting.auth}, this relay {ours}; relay.auth must be the same on both"
        )
    introduction = Introduction(host=socket.gethostname())
    if munge is None:
        _write(writer, introduction)
        await _welcomed(reader)
        return Link(reader, writer, longest=LONGEST_ANSWER), greeting
    _check_uid(greeting.uid)
    proof = _proof(_RELAY, greeting.nonce)
    introduction.credential = await _encoded(munge, proof, greeting.uid)
    _write(writer, introduction)
    welcome = await _welcomed(reader)
    answer, uid = await _decoded(munge, welcome.credential)
    _check_uid(uid)
    _opened(answer, _NIMOD, _digest(proof))
    return _link(reader, writer, proof, answer, ours=_RELAY), greeting


async def receive(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, munge: Munge | None
) -> tuple[Link, str]:
    """Make a link of a connection of a relay; also give the relay's host, as it says.

    munge: none: the connection is TLS, with the certificate of the relay checked.
    Raises LinkError: the relay's proof of identity failed.  It has been sent the error; OSError,
        EOFError: the connection is cut.
    """
    greeting = Greeting(
        release=release(),
        auth="tls" if munge is None else "munge",
        uid=os.geteuid(),
        nonce=secrets.token_hex(16),
        now_s=time.time(),
    )
    _write(writer, greeting)
    introduction = await _read(reader, Introduction)
    try:
        _check_version(introduction)
        if munge is None:
            _write(writer, Welcome())
            return Link(reader, writer, longest=LONGEST_REQUEST), introduction.host[:_SHOWN]
        proof, uid = await _decoded(munge, introduction.credential)
        _check_uid(uid)
        _opened(proof, _RELAY, greeting.nonce)
        answer = _proof(_NIMOD, _digest(proof))
        credential = await _encoded(munge, answer, uid)
    except LinkError as error:
        _write(writer, Welcome(error=str(error)))
        raise
    _write(writer, Welcome(credential=credential))
    return _link(reader, writer, proof, answer, ours=_NIMOD), introduction.host[:_SHOWN]


_Message = TypeVar("_Message", Greeting, Introduction, Welcome)


async def _read(reader: asyncio.StreamReader, kind: type[_Message]) -> _Message:
    try:
        line = await reader.readuntil(b"\n")
        return msgspec.json.decode(line, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, asyncio.LimitOverrunError) as error:
        raise LinkError("what answers there is not nimod; correct relay.controllers") from error


def _write(writer: asyncio.StreamWriter, message: msgspec.Struct) -> None:
    writer.write(msgspec.json.encode(message) + b"\n")


def _check_version(introduction: Introduction) -> None:
    if (introduction.link, introduction.v) != (LINK_VERSION, VERSION):
        raise LinkError(f"a relay of version {introduction.link}.{introduction.v}")


def _check_uid(uid: int) -> None:
    trusted = {0, os.geteuid()}
    with suppress(KeyError):
        trusted.add(pwd.getpwnam("nimo").pw_uid)
    if uid not in trusted:
        raise LinkError(
            f"credentials of uid {uid} do not count, only those of root and nimo; "
            "give nimo the same uid on both hosts, or see who listens there"
        )


async def _welcomed(reader: asyncio.StreamReader) -> Welcome:
    welcome = await _read(reader, Welcome)
    if welcome.error:
        raise LinkError(f"it refuses: {welcome.error[:_SHOWN]}")
    return welcome


async def _encoded(munge: Munge, payload: bytes, uid: int) -> str:
    try:
        return await asyncio.to_thread(munge.encode, payload, for_uid=uid)
    except MungeError as error:
        raise LinkError(f"{error}; start munged on both hosts") from error


async def _decoded(munge: Munge, credential: str) -> tuple[bytes, int]:
    try:
        return await asyncio.to_thread(munge.decode, credential)
    except MungeError as error:
        raise LinkError(f"{error}; munge's key and the clock must be the same on both") from error


def _opened(payload: bytes, side: str, about: str) -> _Proof:
    """Read the payload of a credential that is to be of this side, and about this."""
    try:
        proof = msgspec.json.decode(payload, type=_Proof)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise LinkError("a credential for something else") from error
    if (proof.side, proof.about) != (side, about):
        raise LinkError("a credential of another connection")
    return proof


def _proof(side: str, about: str) -> bytes:
    return msgspec.json.encode(_Proof(side=side, about=about, key=secrets.token_bytes(32)))


def _digest(payload: bytes) -> str:
    return hashlib.sha256(payload).hexdigest()


def _link(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    relays: bytes,
    nimods: bytes,
    *,
    ours: str,
) -> Link:
    """Make a link whose keys come from both proofs."""
    secret = b"".join(msgspec.json.decode(one, type=_Proof).key for one in (relays, nimods))
    seals = {
        side: FrameSeal(hmac.digest(secret, side.encode(), "sha256")) for side in (_RELAY, _NIMOD)
    }
    theirs = seals.pop(_NIMOD if ours == _RELAY else _RELAY)
    longest = LONGEST_ANSWER if ours == _RELAY else LONGEST_REQUEST
    return Link(reader, writer, ours=seals[ours], theirs=theirs, longest=longest)


@dataclass(slots=True)
class Certificates:
    """What this host shows and what it believes; read again when the files change."""

    files: Tls  #: paths of authority, certificate and key
    _: KW_ONLY
    server: bool  #: this host is the controller
    _read_ns: tuple[int, ...] = ()
    _context: ssl.SSLContext | None = None

    def context(self) -> ssl.SSLContext:
        """Give what a connection needs.

        Raises LinkError: a file cannot be read, or is none of the kind.
        """
        paths = (self.files.authority, self.files.certificate, self.files.key)
        try:
            changed_ns = tuple(Path(path).stat().st_mtime_ns for path in paths)
            if self._context is None or changed_ns != self._read_ns:
                self._context = self._read(*paths)
                self._read_ns = changed_ns
        except (OSError, ssl.SSLError) as error:
            named = getattr(error, "filename", None) or ", ".join(paths)
            raise LinkError(f"{named}: {error.strerror or error}; correct relay.tls") from error
        return self._context

    def _read(self, authority: str, certificate: str, key: str) -> ssl.SSLContext:
        side = ssl.PROTOCOL_TLS_SERVER if self.server else ssl.PROTOCOL_TLS_CLIENT
        context = ssl.SSLContext(side)  # a client checks the name of the host
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(authority)
        context.load_cert_chain(certificate, key)
        return context


def check_name(certificate: Any, patterns: Iterable[str]) -> None:
    """See that a relay's certificate is one of those that the site names.

    certificate: as :meth:`ssl.SSLSocket.getpeercert` gives it.
    Raises LinkError: it is none: the authority has also made those of other hosts and people.
    """
    certificate = certificate or {}
    names = [name for kind, name in certificate.get("subjectAltName", ()) if kind == "DNS"]
    if not any(_matches(name, pattern) for name in names for pattern in patterns):
        shown = ", ".join(names) or "no host"
        raise LinkError(f"the certificate is of {shown}, not of relay.tls.login_nodes")


def _matches(name: str, pattern: str) -> bool:
    """Whether each label of a name matches that of the pattern; `*` stands for no dot."""
    labels = name.split(".")
    patterns = pattern.split(".")
    return len(labels) == len(patterns) and all(map(fnmatchcase, labels, patterns))
