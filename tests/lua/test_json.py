"""Requests as JSON."""

import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.lua.hooks import Hooks

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
NUMBER = st.integers(0, 2**53)
JOB = st.dictionaries(
    TEXT, TEXT | NUMBER | st.booleans() | st.lists(TEXT, min_size=1), min_size=1, max_size=6
)
SAME_HOOKS = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


def encoded(hooks: Hooks, value: dict[str, Any]) -> bytes:
    hooks.lua.globals().value = lua_value(hooks, value)
    text = hooks.lua.eval("require('nimo_json').encode(value)")
    return str(text).encode("latin-1")


def lua_value(hooks: Hooks, value: Any) -> Any:
    if isinstance(value, str):
        return value.encode().decode("latin-1")
    if isinstance(value, dict):
        value = {lua_value(hooks, k): lua_value(hooks, v) for k, v in value.items()}
        return hooks.lua.table_from(value)
    if isinstance(value, list):
        return hooks.lua.table_from([lua_value(hooks, v) for v in value])
    return value


@SAME_HOOKS
@given(job=JOB)
def test_what_is_encoded_can_be_read(hooks: Hooks, job: dict[str, Any]) -> None:
    assert json.loads(encoded(hooks, job)) == job


@SAME_HOOKS
@given(raw=st.binary().filter(lambda raw: b"\0" not in raw))
def test_any_bytes_become_valid_utf8(hooks: Hooks, raw: bytes) -> None:
    hooks.lua.globals().raw = raw.decode("latin-1")
    text = hooks.lua.eval("require('nimo_json').encode({ raw = raw })").encode("latin-1")
    read = json.loads(text.decode())["raw"]
    assert read.replace("\ufffd", "") == raw.decode(errors="ignore").replace("\ufffd", "")
