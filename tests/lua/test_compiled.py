"""Compiled copies of the modules that cli_filter loads count only beside their sources."""

from pathlib import Path

import pytest

from slurm_plugin.setup.hooks import BUNDLES, VERSIONS, compile_hooks, compiler_of

CONF = "forward_deadline = yes"
FORWARDED = "nimo{deadline=uts1767261600,own=4} mine"
OTHER = "return { filter = function(_, options) options.comment = 'compiled' end }"


def copy_of(hooks, module):
    version = f"{hooks.version[3]}.{hooks.version[4]}"
    return hooks.folder / f"{module}.lua{version}"


def comment_of(hooks):
    options = hooks.load_cli_filter().filter(
        type="sbatch", comment="mine", deadline="1767261600", nodes="1-4"
    )
    return str(options["comment"])


def lay(hooks, program):
    """Put a copy there: a program that is to give the module, compiled."""
    code = hooks.lua.globals().string.dump(hooks.lua.eval(f"function(...) {program} end"))
    copy_of(hooks, "nimo_filter").write_bytes(str(code).encode("latin-1"))


def install(hooks):
    """Compile what is in the folder; give the version of Lua."""
    version = str(hooks.lua.eval("_VERSION:sub(5)"))
    if compiler_of(version) is None:
        pytest.skip(f"no library of Lua {version} here")
    assert copy_of(hooks, "nimo_filter") in compile_hooks(hooks.folder)
    assert compile_hooks(hooks.folder) == []
    return version


def test_what_a_copy_gives_is_used(runtime):
    hooks = runtime(CONF)
    lay(hooks, f"return function() {OTHER} end")
    assert comment_of(hooks) == "compiled"


@pytest.mark.parametrize("program", ["", "return nil", "return {}", "error('x')"])
def test_a_copy_that_gives_nothing_is_not_used(runtime, program):
    hooks = runtime(CONF)
    lay(hooks, program)
    assert comment_of(hooks) == FORWARDED


@pytest.mark.parametrize("code", ["-- text {", "\x1bLua", "\x1bLua\x10garbage"])
def test_code_that_lua_refuses_is_not_used(runtime, code):
    hooks = runtime(CONF)
    copy_of(hooks, "nimo_filter").write_bytes(code.encode("latin-1"))
    assert comment_of(hooks) == FORWARDED


@pytest.mark.parametrize("changed", [None, "nimo_filter", "nimo_settings"])
def test_what_is_installed_is_used_beside_the_same_sources(runtime, changed):
    hooks = runtime(CONF)
    (hooks.folder / "nimo_filter.lua").write_text(OTHER)
    install(hooks)
    # The code gets another text than its source, so that its use shows.
    path = copy_of(hooks, "nimo_filter")
    before, _, after = path.read_bytes().rpartition(b"compiled")
    path.write_bytes(before + b"the copy" + after)
    if changed:
        source = hooks.folder / f"{changed}.lua"
        source.write_bytes(source.read_bytes().replace(b"\n", b" \n") + b" ")
    assert comment_of(hooks) == ("compiled" if changed else "the copy")


def test_all_bytes_of_a_source_are_compared(runtime):
    hooks = runtime(CONF)
    path = hooks.folder / "nimo_filter.lua"
    path.write_bytes(path.read_bytes() + b"\n-- " + bytes(set(range(256)) - {10, 13}) + b"1\r\n")
    version = install(hooks)
    program = copy_of(hooks, "nimo_filter").read_bytes().decode("latin-1")
    gives = hooks.lua.eval(
        "function(code, folder, contents) return (loadstring or load)(code)(folder, contents) end"
    )
    assert gives(program, f"{hooks.folder}/", contents) is not None, version
    assert gives(program, f"{hooks.folder}/", lambda path: contents(path) + "2") is None


def contents(path):
    return Path(path).read_bytes().decode("latin-1")


def test_what_is_installed_does_the_same(runtime):
    hooks = runtime(CONF)
    version = install(hooks)
    assert comment_of(hooks) == FORWARDED
    for name in BUNDLES:
        code = (hooks.folder / f"{name}.lua{version}").read_bytes().decode("latin-1")
        assert hooks.lua.eval("function(code) return (loadstring or load)(code) ~= nil end")(code)


def test_versions_are_those_of_the_hooks(runtime):
    version = runtime().lua.eval("_VERSION:sub(5)")
    assert version in VERSIONS
