"""Compiled copies of the hooks' modules: each sbatch loads some, and compiling is most of its cost.

Beside ``nimo_ahead.lua`` lies ``nimo_ahead.lua5.1`` for Lua 5.1: the source, and behind it what Lua
makes of it.  cli_filter.lua takes the code only where that source is the one of ``nimo_ahead.lua``,
so that no copy outlives a change.  Lua itself refuses code of another version.
"""

import ctypes
from collections.abc import Callable
from pathlib import Path

from slurm_plugin.setup.files import put
from slurm_plugin.shipped_files import HOOKS

#: Versions that the hooks run with.
VERSIONS = ("5.1", "5.2", "5.3", "5.4")
#: How Debian, Red Hat and SUSE name a version's library.
_LIBRARIES = ("liblua{}.so.0", "liblua-{}.so", "liblua{}.so.5")
_DUMP = b"""local source, name = ...
return string.dump(assert((loadstring or load)(source, "=" .. name)), true)
"""

_Compiler = Callable[[bytes, bytes], bytes | None]


def compile_hooks(folder: Path) -> list[Path]:
    """Compile the modules in a folder for each Lua of this machine; give the files written.

    Raises
    ------
    ConfigError
        A file cannot be written.
    """
    written = []
    for version in VERSIONS:
        if (compiler := compiler_of(version)) is None:
            continue
        for path in sorted(folder / module.name for module in HOOKS.glob("nimo_*.lua")):
            source = path.read_bytes()
            code = compiler(source, path.name.encode())
            copy = path.with_name(path.name + version)
            if code and (not copy.exists() or copy.read_bytes() != source + code):
                put(copy, source + code)
                written.append(copy)
    return written


def compiler_of(version: str) -> _Compiler | None:
    """Give what compiles a source (and its name) for a version of Lua; None: it is not here."""
    for name in _LIBRARIES:
        try:
            library = ctypes.CDLL(name.format(version))
        except OSError:
            continue
        return lambda source, called: _dumped(library, source, called)
    return None


def _dumped(library: ctypes.CDLL, source: bytes, name: bytes) -> bytes | None:
    """Let Lua compile a source; None where it does not."""
    library.luaL_newstate.restype = ctypes.c_void_p
    state = ctypes.c_void_p(library.luaL_newstate())
    if not state:
        return None
    try:
        library.luaL_openlibs(state)
        if library.luaL_loadstring(state, _DUMP):
            return None
        for text in (source, name):
            library.lua_pushlstring(state, text, ctypes.c_size_t(len(text)))
        return _result(library, state) if _call(library, state) == 0 else None
    finally:
        library.lua_close(state)


def _call(library: ctypes.CDLL, state: ctypes.c_void_p) -> int:
    """Call what lies on the stack with two arguments for one result; 0: it went well."""
    if hasattr(library, "lua_pcallk"):  # from 5.2 on
        return int(library.lua_pcallk(state, 2, 1, 0, ctypes.c_void_p(0), ctypes.c_void_p(0)))
    return int(library.lua_pcall(state, 2, 1, 0))


def _result(library: ctypes.CDLL, state: ctypes.c_void_p) -> bytes:
    length = ctypes.c_size_t()
    library.lua_tolstring.restype = ctypes.c_void_p
    return ctypes.string_at(library.lua_tolstring(state, -1, ctypes.byref(length)), length.value)
