"""Requests and answers as JSON."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
NUMBER = st.integers(0, 2**53)
JOB = st.dictionaries(
    TEXT, TEXT | NUMBER | st.booleans() | st.lists(TEXT, min_size=1), min_size=1, max_size=6
)
SAME_HOOKS = settings(
    max_examples=40,  # for each of four versions of Lua
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def encoded(hooks, value):
    hooks.lua.globals().value = lua_value(hooks, value)
    text = hooks.lua.eval("require('nimo_json').encode(value)")
    return str(text).encode("latin-1")


def lua_value(hooks, value):
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
def test_what_is_encoded_can_be_read(hooks, job):
    assert json.loads(encoded(hooks, job)) == job


@SAME_HOOKS
@given(raw=st.binary().filter(lambda raw: b"\0" not in raw))
def test_any_bytes_become_valid_utf8(hooks, raw):
    hooks.lua.globals().raw = raw.decode("latin-1")
    text = hooks.lua.eval("require('nimo_json').encode({ raw = raw })").encode("latin-1")
    read = json.loads(text.decode())["raw"]
    assert read.replace("\ufffd", "") == raw.decode(errors="ignore").replace("\ufffd", "")


def decoded(hooks, text):
    """What the hooks make of a text, as Python has it; None where they take it for no JSON."""
    hooks.lua.globals().text = text.decode("latin-1")
    return python_value(hooks.lua.eval("require('nimo_json').decode(text)"))


def python_value(value):
    if isinstance(value, str):
        return value.encode("latin-1").decode("utf-8", "surrogatepass")
    if not hasattr(value, "items"):
        return value
    made = {python_value(k): python_value(v) for k, v in value.items()}
    is_list = made and all(isinstance(k, int) for k in made)
    return [made.get(i) for i in range(1, max(made) + 1)] if is_list else made


def as_lua_has_it(value):
    """Without what is null, and with no difference between an empty list and an empty object."""
    if isinstance(value, dict):
        return {k: as_lua_has_it(v) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        made = [as_lua_has_it(v) for v in value]
        while made and made[-1] is None:
            made.pop()
        return made or {}
    return value


SCALAR = (
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_characters="\0"))
)
JSON = st.dictionaries(
    st.text(st.characters(exclude_characters="\0"), min_size=1),
    st.recursive(SCALAR, lambda some: st.lists(some) | st.dictionaries(TEXT, some), max_leaves=12),
)
LAYOUTS = st.sampled_from([{}, {"ensure_ascii": False}, {"indent": 1}])


@SAME_HOOKS
@given(value=JSON, layout=LAYOUTS)
def test_what_python_writes_is_read(hooks, value, layout):
    text = json.dumps(value, **layout).encode("utf-8", "surrogatepass")
    assert decoded(hooks, text) == as_lua_has_it(json.loads(json.dumps(value)))


@SAME_HOOKS
@given(value=JSON, data=st.data())
def test_broken_json_is_read_as_python_does_or_not_at_all(hooks, value, data):
    text = bytearray(json.dumps(value).encode())
    at = data.draw(st.integers(0, len(text) - 1))
    cut = data.draw(st.integers(0, 3))
    text[at : at + cut] = data.draw(st.binary(max_size=3).filter(lambda raw: b"\0" not in raw))
    try:
        read = json.loads(text.decode("latin-1"), parse_constant=_no_constant, strict=False)
    except ValueError:
        read = None
    hooks.lua.globals().text = bytes(text).decode("latin-1")
    ours = hooks.lua.eval("require('nimo_json').decode(text)")
    assert (ours is not None) is isinstance(read, (dict, list))


def _no_constant(name):
    raise ValueError(name)


@SAME_HOOKS
@given(raw=st.binary(max_size=60) | st.text('[]{}",:\\u0123456789eE+-. truefalsn', max_size=60))
def test_no_text_upsets_the_reader(hooks, raw):
    text = raw if isinstance(raw, str) else raw.decode("latin-1")
    hooks.lua.globals().text = text
    result = hooks.lua.eval("type(require('nimo_json').decode(text))")
    assert result in ("table", "nil")


@pytest.mark.parametrize(
    "text",
    [
        *("[" * 60_000, '{"a":' * 12_000, "[" * 33 + "]" * 33, '{"v":1}{"v":1}', '{"v":01}'),
        *('{"v":NaN}', '{"v":1,}', '{"v":1.}', "{'v':1}", '"text"', "7", "", '{"v":"\\x"}'),
        *('{"v":"\\u12"}', '{"v" 1}', "{1:2}", "[1 2]", "[truefalse]", '{"v":-}', "[.5]"),
    ],
    ids=lambda text: text[:12],
)
def test_what_is_no_json_or_too_deep_is_nothing(hooks, text):
    assert decoded(hooks, text.encode()) is None


def test_the_depth_that_answers_have_is_read(hooks):
    assert decoded(hooks, b"[" * 32 + b"]" * 32) is not None
