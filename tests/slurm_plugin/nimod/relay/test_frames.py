"""Whatever bytes come on a link, it gives a frame or one of few errors."""

import asyncio

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from slurm_plugin.nimod.relay.frames import LONGEST_REQUEST, Frame, FrameSeal, Kind, Link, LinkError


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
