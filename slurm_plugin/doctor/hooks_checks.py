"""Checks of the Lua hooks: files, syntax, modules, whether Slurm calls them and has loaded them."""

import re
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from shutil import which

from sacct_ingest.errors import SlurmError
from slurm_plugin.config.settings_file import ETC, HOOKS, place
from slurm_plugin.doctor.installation import (
    CONF_FIX,
    Finding,
    Installation,
    fine,
    line,
    skipped,
    warning,
    wrong,
)

_LUA = re.compile(rb"liblua-?(5\.\d)\.so")  #: in the plugin: what it was built for
_FILTER_PATH = re.compile(r"cli_filter_lua_path=([^,\s]+)")  #: since 25.11
_PAIR = re.compile(r"^\s*([\w-]+)\s*=\s*(.*?)\s*$", re.MULTILINE)
_COPY = "nimo hook-path --install"
#: Module -> package of it.
_MODULES = {"socket.unix": "lua-socket"}
#: What looks at sizes of input files.
_LOOKS = ("posix.unistd", "posix.dirent", "posix.sys.stat", "posix.fcntl", "posix.time")
#: Lua's search paths without the current folder, where others may have left modules.
_ABSOLUTE = (
    'for _, one in ipairs { "path", "cpath" } do '
    'package[one] = (";" .. package[one]):gsub(";[^;/][^;]*", "") end'
)


def hook_files(installation: Installation) -> Iterator[Finding]:
    """All files of the hooks are there, and of this release."""
    shipped = {place(installation.hooks, path.name): path for path in sorted(HOOKS.glob("*.lua"))}
    fix = f"{_COPY} {installation.hooks}"
    missing = [path.name for path in shipped if not path.exists()]
    other = [
        path.name
        for path, ours in shipped.items()
        if path.exists() and path.read_bytes() != ours.read_bytes()
    ]
    if missing:
        yield wrong(f"missing in {installation.hooks}: {', '.join(missing)}", fix)
    if other:
        yield warning(f"of another release: {', '.join(other)}", fix)
    if not missing and not other:
        yield fine(f"the hooks in {installation.hooks} are those of this release")


def syntax(installation: Installation) -> Iterator[Finding]:
    """Lua can read the hooks: with a broken job_submit.lua slurmctld does not even start."""
    version = lua_version(installation)
    compiler = next(filter(None, map(which, (f"luac{version}", f"luac-{version}", "luac"))), None)
    paths = [place(installation.hooks, path.name) for path in sorted(HOOKS.glob("*.lua"))]
    there = [path for path in paths if path.exists()]
    if compiler is None or not there:
        yield skipped(f"no hooks in {installation.hooks}" if compiler else f"no luac{version} here")
        return
    broken = False
    for path in there:
        try:
            installation.run((compiler, "-p", str(path)))
        except SlurmError as error:
            broken = True
            fix = f"{_COPY} {installation.hooks} before slurmctld is started again"
            yield wrong(str(error), fix)
    if not broken:
        yield fine(f"{Path(compiler).name} reads the hooks")


def modules(installation: Installation) -> Iterator[Finding]:
    """Load the Lua modules that the hooks need, with the Lua that slurmctld has."""
    version = lua_version(installation)
    lua = next(filter(None, map(which, (f"lua{version}", f"lua-{version}", "lua"))), None)
    if lua is None:
        yield skipped(f"no lua{version} here to load modules with")
        return
    missing = [name for name in _MODULES if not _loads(installation, lua, name)]
    looks = _said(installation).get("look_at_inputs") == "yes"
    if looks and not all(_loads(installation, lua, name) for name in _LOOKS):
        yield warning(
            f"Lua {version} cannot load luaposix: sbatch looks at no sizes of input files",
            "install lua-posix on the login nodes, or look_at_inputs = no in "
            f"{installation.hooks}/nimo_hook.conf",
        )
    for name in missing:
        yield wrong(
            f"Lua {version} cannot load {name}: all jobs pass without NIMO",
            f"install {_MODULES[name]}, then: touch {installation.hooks}/job_submit.lua",
        )
    if not missing:
        yield fine(f"Lua {version} loads {', '.join(_MODULES)}")


def _loads(installation: Installation, lua: str, name: str) -> bool:
    """Whether a module can be loaded."""
    try:
        installation.run((lua, "-e", f'{_ABSOLUTE} require("{name}")'))
    except SlurmError:
        return False
    return True


def lua_version(installation: Installation) -> str:
    """Lua that Slurm's plugin was built for; 5.1, Debian's, where that cannot be seen."""
    for folder in installation.slurm.get("PluginDir", "").split(":"):
        plugin = Path(folder) / "job_submit_lua.so"
        if plugin.exists() and (match := _LUA.search(plugin.read_bytes())):
            return match[1].decode()
    return "5.1"


def job_submit(installation: Installation) -> Iterator[Finding]:
    """Slurmctld calls the hook, and can run Lua."""
    if missing := line(installation.slurm, "JobSubmitPlugins"):
        yield wrong(
            "JobSubmitPlugins has no lua: slurmctld does not run NIMO's hook",
            f"{missing} {CONF_FIX}",
        )
    else:
        yield fine("JobSubmitPlugins has lua")
    folders = [Path(part) for part in installation.slurm.get("PluginDir", "").split(":") if part]
    if not any(folder.is_dir() for folder in folders):
        yield skipped("Slurm's plugins are not on this machine; run this where slurmctld runs")
    elif not any((folder / "job_submit_lua.so").exists() for folder in folders):
        yield wrong(
            f"job_submit_lua.so is not in {installation.slurm['PluginDir']}",
            "install a Slurm that was built with Lua (Debian's is; RPM: rpmbuild --with lua)",
        )


def cli_filter(installation: Installation) -> Iterator[Finding]:
    """Commands pass the deadline on."""
    named = _FILTER_PATH.search(installation.slurm.get("CliFilterParameters", ""))
    path = Path(named[1]) if named else installation.hooks / "cli_filter.lua"
    if missing := line(installation.slurm, "CliFilterPlugins"):
        yield warning(
            "CliFilterPlugins has no lua: NIMO cannot read --deadline of the command line",
            f"{missing} in slurm.conf of the login nodes",
        )
    # Where the file itself is not, no commands are expected to run.
    elif named and path.exists() and not path.with_name("nimo_filter.lua").exists():
        yield warning(
            f"commands load {path}, and NIMO's modules are not beside it",
            f"nimo hook-path --install {path.parent}",
        )
    else:
        yield fine("CliFilterPlugins has lua")


def loaded(installation: Installation) -> Iterator[Finding]:
    """Slurmctld has loaded the files that are there.

    It loads job_submit.lua when it starts and again when the file's time stamp is newer than that
    of the last load; time stamps that a copy keeps, and the other files, it does not notice.
    """
    boot = installation.slurm.get("BOOT_TIME", "")
    hook = installation.hooks / "job_submit.lua"
    if not boot.isdecimal() or not hook.exists():
        yield skipped(f"no {hook}" if boot else "slurmctld does not report when it was started")
        return
    loaded_s = max(int(boot), int(hook.stat().st_mtime))
    late = [
        path.name
        for path in (
            *sorted(installation.hooks.glob("*.lua")),
            installation.hooks / "nimo_hook.conf",
        )
        if path.exists() and path.name != "cli_filter.lua" and path.stat().st_ctime > loaded_s + 1
    ]
    if late:
        yield warning(f"slurmctld has not loaded the new {', '.join(late)}", f"touch {hook}")
    else:
        yield fine("slurmctld has loaded the installed hooks")


def hook_settings(installation: Installation) -> Iterator[Finding]:
    """Check that the hooks use the nimod of this configuration, and are not switched off."""
    path = installation.hooks / "nimo_hook.conf"
    said = _said(installation)
    socket = said.get("socket", "/run/nimo/nimod.sock")
    if socket != installation.settings.socket:
        yield wrong(
            f"the hooks ask {socket}, nimod listens on {installation.settings.socket}",
            f"socket = {installation.settings.socket} in {path}, "
            "then: touch job_submit.lua beside it",
        )
    else:
        yield fine(f"the hooks ask {socket}")
    defaults = dict(_PAIR.findall((ETC / "nimo_hook.conf").read_text()))
    for name in sorted(said.keys() - defaults.keys()):
        near = get_close_matches(name, defaults, n=1)
        fix = (
            f"did you mean {near[0]!r}?" if near else f"remove it; there are: {', '.join(defaults)}"
        )
        yield warning(f"{path}: the hooks have no setting {name!r} and ignore it", fix)
    switch = Path(said.get("kill_switch", "/etc/nimo/off"))
    own = installation.settings.kill_switch
    if switch != Path(own):
        yield wrong(
            f"{switch} switches the hooks off, and {own} nimod", f"kill_switch = {own} in {path}"
        )
    if switch.exists():
        yield warning(f"{switch} exists: all jobs pass without NIMO", f"rm {switch}")
    if switch.parent.exists() and (switch.parent.stat().st_mode & 0o1002) == 0o002:
        yield wrong(
            f"every user can create {switch} and so switch NIMO off", f"chmod o-w {switch.parent}"
        )


def _said(installation: Installation) -> dict[str, str]:
    """Read what nimo_hook.conf says."""
    path = installation.hooks / "nimo_hook.conf"
    return dict(_PAIR.findall(path.read_text(errors="replace"))) if path.exists() else {}


def forwarding(installation: Installation) -> Iterator[Finding]:
    """Check that job_submit removes what cli_filter puts before comments: nothing else does."""
    path = installation.hooks / "nimo_hook.conf"
    forwards = _said(installation).get("forward_deadline") == "yes"
    if line(installation.slurm, "CliFilterPlugins"):
        yield skipped("CliFilterPlugins has no lua")
    elif forwards and line(installation.slurm, "JobSubmitPlugins"):
        yield wrong(
            "cli_filter writes deadlines into users' comments, and job_submit, which removes "
            "them, is off",
            f"forward_deadline = no in {path} until it is",
        )
    elif not forwards and not line(installation.slurm, "JobSubmitPlugins"):
        yield warning(
            "cli_filter forwards no deadline: NIMO cannot read --deadline of the command line",
            f"forward_deadline = yes in {path}",
        )
    else:
        yield fine("cli_filter forwards the deadline to job_submit")
