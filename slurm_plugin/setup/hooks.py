"""Files of settings, and the Lua hooks, beside slurm.conf.

Missing settings are written, and files that an admin changed are never touched.  Hooks are put
there so that no submission meets half of them.

slurmctld loads all of them when job_submit.lua has a newer time stamp, so that one comes last; each
file is there whole or not at all.

Each sbatch loads some modules, and compiling is most of its cost. So beside ``nimo_ahead.lua`` lies
``nimo_ahead.lua5.1`` for Lua 5.1: the module, and those that it always loads, as one program of
code that Lua takes as it is. The program holds the sources that it was made of. It gives the module
only while each is still what lies in the folder, so that no copy outlives a change. Lua itself
refuses code of another version.
"""

import ctypes
import string
from collections.abc import Callable
from dataclasses import dataclass
from difflib import unified_diff
from enum import StrEnum
from pathlib import Path

from sacct_ingest.errors import ConfigError
from sacct_ingest.files import atomic_file
from slurm_plugin.config.settings_file import ENTRIES, HOOKS, place

_LOADED = ENTRIES[-1]
#: Versions that the hooks run with.
VERSIONS = ("5.1", "5.2", "5.3", "5.4")
#: How Debian, Red Hat and SUSE name a version's library.
_LIBRARIES = ("liblua{}.so.0", "liblua-{}.so", "liblua{}.so.5")
#: What is compiled: the modules that a command loads, each with those that it always loads.
BUNDLES = {
    "nimo_filter": ("nimo_settings",),
    "nimo_ahead": ("nimo_encode", "nimo_script"),
    "nimo_inputs": (),
    "nimo_look": ("nimo_words", "nimo_script", "nimo_files"),
    "nimo_prepare": ("nimo_json", "nimo_shared", "nimo_sizes"),
}
#: Of a list, so that no module sees a name of another's.  ``contents`` gives the text of a file.
_PROGRAM = b"""local modules = {%s}
local folder, contents = ...
for name, source in pairs({%s}) do
  if contents(folder .. name .. ".lua") ~= source then return nil end
end
for name, module in pairs(modules) do package.preload[name] = package.preload[name] or module end
return modules[%s]
"""
_DUMP = b"""local source, name = ...
return string.dump(assert((loadstring or load)(source, "=" .. name)), true)
"""
_SIMPLE = frozenset(string.printable.encode()) - set(b'"\\\r\n\x0b\x0c')
_QUOTED = [bytes([byte]) if byte in _SIMPLE else b"\\%03d" % byte for byte in range(256)]


class FileState(StrEnum):
    """What becomes of a file."""

    NEW = "new"  #: it is not there and is written
    FILLED_IN = "filled in"  #: it is there as it was shipped, without changes, and is written
    SAME = "same"  #: it says the same already
    UNTOUCHED = "untouched"  #: it has other contents and stays as it is


@dataclass(frozen=True, slots=True)
class Planned:
    """One file, and what it should say."""

    path: Path
    text: str
    before: str | None  #: what it says; None: there is none
    state: FileState

    @property
    def difference(self) -> str:
        """What is there against what should be, as ``diff -u`` prints it."""
        old = "/dev/null" if self.before is None else str(self.path)
        lines = unified_diff(
            (self.before or "").splitlines(keepends=True),
            self.text.splitlines(keepends=True),
            old,
            str(self.path),
        )
        return "".join(lines)


def plan(path: Path, text: str, shipped: str) -> Planned:
    """Say what becomes of a file that should have this text.

    shipped: the sample: a file with just this text was put there by an installation, not by an
        admin.
    Raises ConfigError: the file is there and cannot be read.
    """
    try:
        before = path.read_text(encoding="utf-8") if path.exists() else None
    except (OSError, UnicodeDecodeError) as error:
        raise _failed(path, error, "read") from error
    states = {text: FileState.SAME, None: FileState.NEW, shipped: FileState.FILLED_IN}
    return Planned(path, text, before, states.get(before, FileState.UNTOUCHED))


def write(planned: Planned) -> None:
    """Write a file that is new or to be filled in; the others stay.

    Raises ConfigError: it cannot be written.
    """
    if planned.state in (FileState.NEW, FileState.FILLED_IN):
        put(planned.path, planned.text)


def put(path: Path, text: str | bytes) -> None:
    """Let a file have this text from one moment to the next, with the time stamp of now.

    Raises ConfigError: it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic_file.write(path, text.encode() if isinstance(text, str) else text, mode=0o644)
    except OSError as error:
        raise _failed(path, error, "written") from error


def _failed(path: Path, error: Exception, what: str) -> ConfigError:
    reason = getattr(error, "strerror", None) or "not UTF-8 text"
    return ConfigError(f"{path}: cannot be {what}: {reason}; try as root")


def install(folder: Path) -> list[Path]:
    """Put the hooks of this release into a folder, in place of those of another one.

    A hook of the site's own stays, with ours beside it
    (:func:`slurm_plugin.config.settings_file.place`).

    Returns list of Path: the files that were written, compiled copies too; empty where all are
        there already.
    Raises ConfigError: there is no such folder, or a file cannot be written.
    """
    if not folder.is_dir():
        raise ConfigError(f"{folder}: no such folder; the hooks go where slurm.conf is")
    names = sorted((path.name for path in HOOKS.glob("*.lua")), key=_rank)
    there = {name: place(folder, name) for name in names}
    changed = [
        name
        for name, path in there.items()
        if not path.exists() or path.read_bytes() != (HOOKS / name).read_bytes()
    ]
    # Whatever has changed, slurmctld goes by the time stamp of this one.
    to_write = [*(name for name in changed if name != _LOADED), _LOADED] if changed else []
    written = []
    for name in to_write:
        if name == _LOADED:
            written += compile_hooks(folder)
        written.append(there[name])
        put(written[-1], (HOOKS / name).read_text())
    if to_write:
        (folder / _LOADED).touch()
    return written or compile_hooks(folder)


def _rank(name: str) -> tuple[int, str]:
    """Modules before the hooks that load them."""
    return (ENTRIES.index(name) + 1 if name in ENTRIES else 0), name


_Compiler = Callable[[bytes, bytes], bytes | None]


def compile_hooks(folder: Path) -> list[Path]:
    """Compile the modules in a folder for each Lua of this machine; give the files written.

    Raises ConfigError: a file cannot be written.
    """
    written = []
    for version in VERSIONS:
        if (compiler := compiler_of(version)) is None:
            continue
        for name in BUNDLES:
            path = folder / f"{name}.lua{version}"
            code = compiler(_program(folder, name), name.encode())
            if code and (not path.exists() or path.read_bytes() != code):
                put(path, code)
                written.append(path)
    return written


def _program(folder: Path, name: str) -> bytes:
    """Give the program that makes a module and those that it always loads."""
    sources = {one: (folder / f"{one}.lua").read_bytes() for one in (name, *BUNDLES[name])}
    modules = (b"%s = function(...) %s\nend" % (one.encode(), it) for one, it in sources.items())
    texts = (b"%s = %s" % (one.encode(), _quoted(it)) for one, it in sources.items())
    return _PROGRAM % (b",\n".join(modules), b",\n".join(texts), _quoted(name.encode()))


def _quoted(text: bytes) -> bytes:
    """Write a text as Lua's own programs do; all versions read it alike."""
    return b'"%s"' % b"".join(_QUOTED[byte] for byte in text)


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
        # What lies on the stack is called with two arguments for one result.
        if hasattr(library, "lua_pcallk"):  # from 5.2 on
            none = ctypes.c_void_p(0)
            failed = library.lua_pcallk(state, 2, 1, 0, none, none)
        else:
            failed = library.lua_pcall(state, 2, 1, 0)
        if failed:
            return None
        length = ctypes.c_size_t()
        library.lua_tolstring.restype = ctypes.c_void_p
        made = library.lua_tolstring(state, -1, ctypes.byref(length))
        return ctypes.string_at(made, length.value)
    finally:
        library.lua_close(state)
