"""Credentials of a real munged."""

import asyncio
import os
import subprocess
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from slurm_plugin.nimod.relay.frames import LONGEST_REQUEST, Frame, FrameSeal, Kind, Link, LinkError
from slurm_plugin.nimod.relay.munge import Munge, MungeError
from tests.cluster.host import missing_programs
from tests.conftest import scratch_directory, unavailable
from tests.slurm_plugin.nimod.relay.credentials import munged

DECODE = """
import os, sys
from slurm_plugin.nimod.relay.munge import Munge, MungeError
os.setgid(65534); os.setuid(65534)
try:
    print(Munge(sys.argv[1]).decode(sys.argv[2]))
except MungeError as error:
    print(error)
"""
NOBODY = 65534


@pytest.fixture(scope="module")
def munge_socket():
    if "munged" in missing_programs():
        unavailable("not installed: munged")
    with scratch_directory("nimo-munge-") as folder, munged(folder) as path:
        yield path


@pytest.fixture
def munge(munge_socket):
    return Munge(munge_socket)


def test_a_credential_has_its_payload_and_its_maker(munge):
    payload = bytes(range(256)) * 8
    assert munge.decode(munge.encode(payload, for_uid=os.geteuid())) == (payload, os.geteuid())


def test_a_credential_is_good_once(munge):
    credential = munge.encode(b"x", for_uid=os.geteuid())
    munge.decode(credential)
    with pytest.raises(MungeError, match="Replayed"):
        munge.decode(credential)


@pytest.mark.parametrize("text", ["", "x", "MUNGE:AwQF:", "ä\0"])
def test_what_is_no_credential_is_refused(munge, text):
    with pytest.raises(MungeError, match="munge: "):
        munge.decode(text)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_a_credential_is_for_one_uid_and_root_is_no_exception(munge, munge_socket):
    with pytest.raises(MungeError, match="Unauthorized"):
        munge.decode(munge.encode(b"x", for_uid=NOBODY))
    decode = [sys.executable, "-c", DECODE, munge_socket]
    for uid, said in ((0, "Unauthorized"), (NOBODY, "(b'x', 0)")):
        argv = [*decode, munge.encode(b"x", for_uid=uid)]
        assert said in subprocess.run(argv, capture_output=True, text=True, check=True).stdout


def test_without_munged_the_error_says_so(tmp_path):
    with pytest.raises(MungeError, match="Did you start munged"):
        Munge(str(tmp_path / "none")).encode(b"x", for_uid=0)


async def _received(data, key):
    reader = asyncio.StreamReader()
    reader.feed_data(data)
    reader.feed_eof()
    link = Link(reader, None, ours=FrameSeal(b""), theirs=FrameSeal(key), longest=LONGEST_REQUEST)
    return await link.receive()


@given(st.binary(max_size=200))
@example((13).to_bytes(4, "big") + bytes(13))
@example((1 << 31).to_bytes(4, "big"))
def test_without_the_key_no_bytes_make_a_frame(data):
    with pytest.raises((LinkError, EOFError)):
        asyncio.run(_received(data, b"key"))


@given(st.binary(max_size=200))
@example((13).to_bytes(4, "big") + bytes([9]) + bytes(12))
@example((13).to_bytes(4, "big") + bytes([1]) + bytes(12))
def test_under_tls_bytes_make_a_frame_or_an_error(data):
    try:
        frame = asyncio.run(_received(data, b""))
    except (LinkError, EOFError):
        return
    assert isinstance(frame, Frame)
    assert frame.kind in Kind
