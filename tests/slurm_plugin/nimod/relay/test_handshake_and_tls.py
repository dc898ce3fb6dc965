"""Relay and controller prove who they are; whoever is not one of them gets nowhere."""

import asyncio
import os
import shutil
import socket
from contextlib import suppress

import msgspec
import pytest

from slurm_plugin.config.setting_types import Auth
from slurm_plugin.config.settings import RelaySettings, Tls
from slurm_plugin.nimod.relay import handshake
from slurm_plugin.nimod.relay.frames import Frame, Kind, LinkError
from slurm_plugin.nimod.relay.handshake import (
    Certificates,
    Greeting,
    Introduction,
    Welcome,
    check_name,
)
from slurm_plugin.protocol.version import VERSION
from tests.certificates import Authority
from tests.conftest import unavailable
from tests.processes import LONGEST_WAIT_S, wait_until
from tests.slurm_plugin.nimod.relay.credentials import As, Munged
from tests.slurm_plugin.nimod.relay.links import HOST, asked, port

ME = os.geteuid()
USER = 4711


def run(case):
    async def within():
        async with asyncio.timeout(LONGEST_WAIT_S):
            return await case

    return asyncio.run(within())


async def pair():
    """Streams of both ends of a connection."""
    ends = socket.socketpair()
    return [await asyncio.open_connection(sock=end, limit=handshake.LONGEST_LINE) for end in ends]


async def linked(relays=None, nimods=None):
    """Both ends of a link, or the errors that kept it from coming about."""
    munged = Munged()
    relays = relays or As(munged, ME)
    nimods = nimods or As(munged, ME)
    there, here = await pair()
    return await asyncio.gather(
        handshake.introduce(*there, relays),
        handshake.receive(*here, nimods),
        return_exceptions=True,
    )


def test_frames_pass_both_ways():
    async def case():
        (relay, greeting), (nimod, host) = await linked()
        relay.send(Frame(Kind.ASK, 7, USER, b"line\n"))
        nimod.send(Frame(Kind.ANSWER, 7, data=b"answer\n"))
        return greeting, host, await nimod.receive(), await relay.receive()

    greeting, host, asked, answered = run(case())
    assert (greeting.v, host) == (VERSION, socket.gethostname())
    assert asked == Frame(Kind.ASK, 7, USER, b"line\n")
    assert answered == Frame(Kind.ANSWER, 7, 0, b"answer\n")


def test_a_user_is_no_relay():
    async def case():
        munged = Munged()
        return await linked(As(munged, USER), As(munged, ME))

    relay, nimod = run(case())
    assert f"uid {USER} do not count" in str(nimod)
    assert "it refuses" in str(relay)
    assert isinstance(relay, LinkError)


def test_a_user_is_no_controller(monkeypatch):
    """It says that it is root, so that the credential is not for it; its own shows who it is."""

    async def case():
        munged = Munged()
        (reader, writer), here = await pair()
        trying = asyncio.create_task(handshake.introduce(*here, As(munged, ME)))
        writer.write(msgspec.json.encode(Greeting(nonce="1", uid=0)) + b"\n")
        introduction = msgspec.json.decode(await reader.readline(), type=Introduction)
        with pytest.raises(Exception, match="Unauthorized"):
            As(munged, USER).decode(introduction.credential)
        forged = As(munged, USER).encode(b"{}", for_uid=ME)
        writer.write(msgspec.json.encode(Welcome(credential=forged)) + b"\n")
        return await asyncio.gather(trying, return_exceptions=True)

    (error,) = run(case())
    assert f"uid {USER} do not count" in str(error)


def test_no_credential_is_made_for_a_user_who_plays_the_controller():
    async def case():
        munged = Munged()
        (_, writer), here = await pair()
        writer.write(msgspec.json.encode(Greeting(nonce="1", uid=USER)) + b"\n")
        with pytest.raises(LinkError, match=f"uid {USER} do not count"):
            await handshake.introduce(*here, As(munged, ME))
        return munged

    assert run(case()).made == {}


@pytest.mark.parametrize("greets_again", [True, False], ids=["same nonce", "another nonce"])
def test_a_credential_of_another_connection_is_refused(greets_again, monkeypatch):
    async def case():
        munged = Munged()
        there, (reader, writer) = await pair()
        relay = asyncio.create_task(handshake.introduce(*there, As(munged, ME)))
        writer.write(msgspec.json.encode(Greeting(nonce="ab", uid=ME)) + b"\n")
        recorded = await reader.readline()
        relay.cancel()
        if greets_again:  # then munge itself refuses
            monkeypatch.setattr(handshake.secrets, "token_hex", lambda _: "ab")
            As(munged, ME).decode(msgspec.json.decode(recorded, type=Introduction).credential)
        (_, writer), here = await pair()
        writer.write(recorded)
        await handshake.receive(*here, As(munged, ME))

    with pytest.raises(LinkError, match="Replayed" if greets_again else "another connection"):
        run(case())


def test_what_a_relay_proves_is_no_proof_of_a_controller():
    """Somebody in between sends the relay's credential back."""

    async def case():
        munged = Munged()
        (reader, writer), here = await pair()
        trying = asyncio.create_task(handshake.introduce(*here, As(munged, ME)))
        writer.write(msgspec.json.encode(Greeting(nonce="1", uid=ME)) + b"\n")
        sent = msgspec.json.decode(await reader.readline(), type=Introduction)
        writer.write(msgspec.json.encode(Welcome(credential=sent.credential)) + b"\n")
        await trying

    with pytest.raises(LinkError, match="another connection"):
        run(case())


async def _in_between(change):
    """A link with somebody in between, who changes the bytes of frames that go to nimod."""
    munged = Munged()
    (relay_end, left), (nimod_end, right) = await pair(), await pair()

    async def pass_on(reader, writer, changed):
        with suppress(OSError, asyncio.CancelledError):
            while data := await reader.read(65536):
                writer.write(changed(data))

    changing = []
    tasks = [
        asyncio.create_task(pass_on(left[0], right[1], lambda d: change(d) if changing else d)),
        asyncio.create_task(pass_on(right[0], left[1], lambda d: d)),
    ]
    (relay, _), (nimod, _) = await asyncio.gather(
        handshake.introduce(*relay_end, As(munged, ME)),
        handshake.receive(*nimod_end, As(munged, ME)),
    )
    changing.append(True)
    relay.send(Frame(Kind.ASK, 1, USER, b"mine\n"))
    try:
        return [await nimod.receive(), await nimod.receive()]
    finally:
        for task in tasks:
            task.cancel()


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.replace(USER.to_bytes(4, "big"), bytes(4)),
        lambda data: data.replace(b"mine", b"your"),
        lambda data: data + data,
    ],
    ids=["another uid", "another line", "twice"],
)
def test_somebody_in_between_can_change_and_repeat_nothing(change):
    with pytest.raises(LinkError, match="changed on its way"):
        run(_in_between(change))


@pytest.mark.parametrize("data", [b"GET / HTTP/1.1\r\n\r\n", b"\xff\xfe\n", b"x" * 200_000])
def test_what_is_not_nimod_is_named(data):
    async def case():
        (_, writer), here = await pair()
        writer.write(data)
        await handshake.introduce(*here, As(Munged(), ME))

    with pytest.raises(LinkError, match="not nimod"):
        run(case())


def test_other_releases_are_named_with_what_to_do():
    async def case(greeting):
        (_, writer), here = await pair()
        writer.write(msgspec.json.encode(greeting) + b"\n")
        await handshake.introduce(*here, As(Munged(), ME))

    with pytest.raises(LinkError, match=r"release '9\.9'.*install the same release"):
        run(case(Greeting(v=VERSION + 1, release="9.9", uid=ME)))
    with pytest.raises(LinkError, match=r"wants tls.*relay\.auth"):
        run(case(Greeting(auth="tls", uid=ME)))


def test_a_frame_that_is_too_long_ends_the_link():
    async def case():
        (relay, _), (nimod, _) = await linked()
        relay.send(Frame(Kind.ASK, 1, USER, bytes(300_000)))
        await nimod.receive()

    with pytest.raises(LinkError, match="a frame of"):
        run(case())


@pytest.fixture
def site(tmp_path):
    if not shutil.which("openssl"):
        unavailable("not installed: openssl")
    return Authority(tmp_path / "site")


def settings(files, *login_nodes, **given):
    return RelaySettings(auth=Auth.TLS, tls=Tls(**files, login_nodes=login_nodes), **given)


@pytest.fixture
def gate(links, site):
    at = port()
    files = site.certify("localhost", f"IP:{HOST}")
    given = settings(files, "login*.example", listen=f"{HOST}:{at}")
    return at, links.gateway(at, settings=given)


def trouble(link):
    (state,) = link.state()
    return state.trouble


def refused(links, at, files):
    """Why there is no link with these files."""
    link = links.uplink(at, up=False, settings=settings(files))
    wait_until(lambda: trouble(link)[:10] not in ("", "not linked"), what="an attempt")
    return trouble(link)


def test_both_sides_show_a_certificate(links, gate, site):
    at, gateway = gate
    link = links.uplink(at, settings=settings(site.certify("login1.example")))
    assert asked(link)[0] == b"7:line\n"
    assert gateway.relays
    assert link.state()[0].auth == "tls"


def test_certificates_of_other_hosts_make_no_relay(links, gate, site):
    at, gateway = gate
    assert refused(links, at, site.certify("node17.example"))
    assert gateway.relays == []


def test_a_pattern_matches_label_by_label():
    def certificate(name):
        return {"subjectAltName": (("DNS", name),)}

    check_name(certificate("login1.cluster"), ["login*.cluster"])
    for name in ("login.evil.cluster", "login1.cluster.evil", "login1"):
        with pytest.raises(LinkError):
            check_name(certificate(name), ["login*.cluster"])


def test_another_authority_counts_neither_here_nor_there(links, gate, site, tmp_path):
    at, gateway = gate
    other = Authority(tmp_path / "other")
    ours = site.certify("login1.example")
    theirs = other.certify("login1.example")
    assert "self-signed" in refused(links, at, theirs) or "verify" in refused(links, at, theirs)
    assert refused(links, at, theirs | {"authority": ours["authority"]})
    assert gateway.relays == []


def test_a_controller_of_another_name_is_refused(links, site):
    at = port()
    given = settings(site.certify("node17.example"), "login*", listen=f"{HOST}:{at}")
    links.gateway(at, settings=given)
    assert "localhost" in refused(links, at, site.certify("login1.example"))


def test_new_certificates_count_at_the_next_connection(site):
    files = site.certify("login1.example")
    certificates = Certificates(Tls(**files), server=False)
    before = certificates.context()
    assert certificates.context() is before
    site.certify("login1.example")
    assert certificates.context() is not before


def test_a_file_that_cannot_be_read_is_named(site, tmp_path):
    files = site.certify("login1.example") | {"key": str(tmp_path / "none")}
    with pytest.raises(LinkError, match=r"none: No such file.*relay\.tls"):
        Certificates(Tls(**files), server=False).context()
