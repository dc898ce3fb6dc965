"""Compiled copies of the modules that cli_filter loads count only beside their source."""

from pathlib import Path

import pytest

from slurm_plugin.setup.compiled_hooks import VERSIONS, compile_hooks, compiler_of
from tests.lua.conftest import Load
from tests.lua.hooks import Hooks

CONF = "forward_deadline = yes"
FORWARDED = "nimo{deadline=uts1767261600,own=4} mine"
OTHER = "return { filter = function(_, options) options.comment = 'compiled' end }"


def copy_of(hooks: Hooks, module: str) -> Path:
    version = f"{hooks.version[3]}.{hooks.version[4]}"
    return hooks.folder / f"{module}.lua{version}"


def comment_of(hooks: Hooks) -> str:
    options = hooks.load_cli_filter().filter(
        type="sbatch", comment="mine", deadline="1767261600", nodes="1-4"
    )
    return str(options["comment"])


def lay(hooks: Hooks, source: str, code: str) -> None:
    """Put a copy there whose code is another program's, so that its use shows."""
    copy_of(hooks, "nimo_filter").write_bytes((source + code).encode("latin-1"))


def other(hooks: Hooks) -> str:
    code = hooks.lua.globals().string.dump(hooks.lua.eval(f"function() {OTHER} end"))
    return str(code)


def source_of(hooks: Hooks) -> str:
    return (hooks.folder / "nimo_filter.lua").read_bytes().decode("latin-1")


def test_a_copy_beside_its_source_is_used(runtime: Load) -> None:
    hooks = runtime(CONF)
    lay(hooks, source_of(hooks), other(hooks))
    assert comment_of(hooks) == "compiled"


@pytest.mark.parametrize("begin", ["", "-- older\n", "\n"], ids=["none", "comment", "line"])
def test_a_copy_of_another_source_is_not_used(runtime: Load, begin: str) -> None:
    hooks = runtime(CONF)
    source = begin + source_of(hooks) if begin else ""
    lay(hooks, source, other(hooks))
    assert comment_of(hooks) == FORWARDED


@pytest.mark.parametrize("code", ["", "\x1bLua", "\x1bLua\x10garbage"], ids=["none", "head", "bad"])
def test_code_that_lua_refuses_is_not_used(runtime: Load, code: str) -> None:
    hooks = runtime(CONF)
    lay(hooks, source_of(hooks), code)
    # Nothing behind the source would be a program that does nothing.
    assert comment_of(hooks) == FORWARDED


def test_what_is_installed_is_used(runtime: Load) -> None:
    hooks = runtime(CONF)
    version = str(hooks.lua.eval("_VERSION:sub(5)"))
    if compiler_of(version) is None:
        pytest.skip(f"no library of Lua {version} here")
    written = compile_hooks(hooks.folder)
    assert compile_hooks(hooks.folder) == []
    assert copy_of(hooks, "nimo_filter") in written
    assert comment_of(hooks) == FORWARDED
    for path in (copy_of(hooks, name) for name in ("nimo_filter", "nimo_ahead", "nimo_prepare")):
        source = path.with_name(path.name.removesuffix(version)).read_bytes()
        assert path.read_bytes().startswith(source)
        code = path.read_bytes().removeprefix(source).decode("latin-1")
        assert hooks.lua.eval("function(code) return (loadstring or load)(code) ~= nil end")(code)


def test_versions_are_those_of_the_hooks(runtime: Load) -> None:
    version = runtime().lua.eval("_VERSION:sub(5)")
    assert version in VERSIONS
