"""The releases of Slurm to test with: this machine's own, and others in root directories.

A root directory is made by ``scripts/make-slurm-root`` when somebody first asks for it, which takes
about a minute and a Debian mirror, and kept in a cache: ``$XDG_CACHE_HOME/nimo/slurm-roots``, for
root by default ``/var/cache/nimo/slurm-roots`` (200 MB each; to be rid of one, delete it).

Debian has some releases.  Others are built from a tree of Slurm's source:
``make slurm-root SOURCE=~/slurm-25.11.7 RELEASE=25.11``, once.
"""

import fcntl
import functools
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.configuration import Version
from tests.processes import Account, ProcessError, search_path

#: Release of Slurm to the Debian suite that has it.
SUITES = {"22.05": "bookworm", "24.11": "trixie", "26.05": "forky"}
#: In which the others are built.
BUILD_SUITE = "bookworm"
#: First release that needs no munge.
_AUTH_SLURM = (23, 11)
SCRIPTS = Path(__file__).parents[2] / "scripts"
MAKE, ENTER = SCRIPTS / "make-slurm-root", SCRIPTS / "enter-slurm-root"
ADD, MAKE_PYTHON = SCRIPTS / "add-to-slurm-root", SCRIPTS / "make-root-python"
COMPAT = Path(__file__).parent / "pyslurm-compat"
CANNOT = 3  # exit status of MAKE
_MARK = Path("etc") / "made-by-make-slurm-root"
_PLACES = ("opt/slurm-*/*bin", "usr/*bin")  #: of programs in a root directory


class ReleaseError(ProcessError):
    """A release of Slurm cannot be had on this machine; the message says why."""


@dataclass(frozen=True, slots=True)
class Root:
    """A root directory with a Slurm of its own."""

    path: Path

    def inside(self, directory: Path, argv: Sequence[str], account: Account) -> list[str]:
        """Give the command that runs another one in there, where `directory` is shared.

        directory: as `prepare` has made it ready.
        argv: command and arguments.
        account: who is to run it.
        """
        user = f"{account.uid}:{account.gid}" if account.foreign else ""
        # A copy, because a job in there may want to run it.
        enter = directory / "entrance" / ENTER.name
        return [str(enter), str(self.path), str(directory), user, *argv]

    def program(self, name: str) -> str:
        """Give the path in there of one of Slurm's programs."""
        # Not left to PATH, where the cluster's wrappers come first.
        result = next(one for where in _PLACES for one in self.path.glob(f"{where}/{name}"))
        return f"/{result.relative_to(self.path)}"

    def has(self, name: str) -> bool:
        """Tell whether one of Slurm's programs is in there."""
        return any(result for where in _PLACES for result in self.path.glob(f"{where}/{name}"))

    def prepare(self, directory: Path) -> None:
        """Make what entering needs to find in a directory: a ``/run`` and this machine's name."""
        run = directory / "entrance" / "run"
        run.mkdir(parents=True, exist_ok=True)
        run.chmod(0o1777)
        shutil.copy(ENTER, directory / "entrance")
        (directory / "etc").mkdir(exist_ok=True)
        # slurmctld tries for 10 s, holding its locks, to look up a name that is not there.
        names = f"127.0.0.1 localhost {os.uname().nodename}\n"
        (directory / "etc" / "hosts").write_text(names)

    @property
    def python(self) -> str:
        """Path in there of a Python that has PySlurm, once `make_python` has made it."""
        return "/opt/nimo/bin/python"

    @property
    def has_python(self) -> bool:
        """Tell whether `make_python` has made it."""
        return (self.path / "opt" / "nimo" / "complete").exists()

    def make_python(self) -> None:
        """Make a Python with PySlurm and what NIMO needs, in some three minutes.

        Raises ReleaseError: when it cannot be made here.
        """
        _run(
            [MAKE_PYTHON, self.path, COMPAT],
            self.path.with_suffix(".python"),
            lambda: self.has_python,
        )

    def lacking(self, programs: Iterable[str]) -> list[str]:
        """Name the programs that are not in there; those with a path are looked for at it."""
        folders = os.pathsep.join(f"{self.path}{one}" for one in search_path().split(os.pathsep))
        return [
            name
            for name in programs
            if not shutil.which(f"{self.path}{name}" if "/" in name else name, path=folders)
        ]

    def add(self, programs: Sequence[str]) -> None:
        """Install the Debian packages that programs are called like.

        Raises ReleaseError: when they cannot be had here.
        """
        argv = [ADD, self.path, *programs]
        _run(argv, self.path.with_suffix(".programs"), lambda: not self.lacking(programs))

    def version(self) -> Version:
        """Give the release in there."""
        return version_of(["chroot", str(self.path), self.program("slurmctld")])


def version_of(slurmctld: Sequence[str]) -> Version:
    """Ask a slurmctld for its release, such as (22, 5)."""
    done = subprocess.run([*slurmctld, "-V"], check=True, capture_output=True, text=True)
    major, minor = re.findall(r"(\d+)\.(\d+)", done.stdout)[0]
    return int(major), int(minor)


def root(release: str) -> Root | None:
    """Find or make the root directory of a release; None for the one installed on this machine.

    Raises ReleaseError: when it cannot be had here.
    """
    if release == native():
        return None
    if (path := cache() / release) in built():
        return Root(path)
    if release not in SUITES:
        raise ReleaseError(
            f"no Slurm {release}: choose one of {', '.join(releases())}, or build it: "
            f"make slurm-root SOURCE=... RELEASE={release}"
        )
    result = cached_root(SUITES[release])
    if isinstance(result, ReleaseError):
        raise result
    return result


def releases() -> list[str]:
    """List the releases to test with: Debian's, and those that were built here."""
    return sorted({*SUITES, *(path.name for path in built())})


def combinations() -> list[str]:
    """List what ``pytest --slurm`` takes: each release with each way to tell users apart."""
    return [
        f"{release}/{auth}"
        for release in releases()
        for auth in ("munge", "slurm")
        if auth == "munge" or tuple(map(int, release.split("."))) >= _AUTH_SLURM
    ]


def built() -> list[Path]:
    """List the root directories of releases that were built."""
    return [path for path in cache().glob("[0-9][0-9].[0-9][0-9]") if (path / _MARK).exists()]


def build(release: str, source: Path) -> Root:
    """Build a release from a tree of its source, in a root directory.

    Raises ReleaseError: it cannot be built here.
    """
    path = cache() / release
    if not re.fullmatch(r"\d\d\.\d\d", release):
        raise ReleaseError(f"{release!r} is no release, such as 25.11")
    if os.geteuid() != 0:
        raise ReleaseError(f"only root can make {path}")
    _run([MAKE, BUILD_SUITE, path, source.resolve(), release], path, lambda: path in built())
    root = Root(path)
    if "{}.{:02}".format(*root.version()) != release:
        raise ReleaseError(f"{source} is not Slurm {release}; delete {path}")
    return root


@functools.cache
def native() -> str | None:
    """Name the release that is installed on this machine; None where there is none."""
    program = shutil.which("slurmctld", path=search_path())
    return "{}.{:02}".format(*version_of([program])) if program else None


def cache() -> Path:
    """Name the folder of the root directories."""
    # As root not in its home, which others may not enter.
    usual = Path("/var/cache") if os.geteuid() == 0 else Path.home() / ".cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or usual) / "nimo" / "slurm-roots"


@functools.cache
def cached_root(suite: str) -> Root | ReleaseError:
    """Find or make one; a failure is kept, so that it is not tried again by every test."""
    path = cache() / suite
    try:
        if not _current(path):
            _make(suite, path)
    except ReleaseError as error:
        return error
    return Root(path)


def _current(path: Path) -> bool:
    """Tell whether a root directory is there and was made by the script as it is now."""
    made_by = path / _MARK
    script = hashlib.sha256(MAKE.read_bytes()).hexdigest()
    return made_by.exists() and made_by.read_text().strip() == script


def _make(suite: str, path: Path) -> None:
    if os.geteuid() != 0:
        raise ReleaseError(f"only root can make {path}")
    _run([MAKE, suite, path], path, lambda: _current(path))


def _run(argv: Sequence[str | Path], path: Path, made: Callable[[], bool]) -> None:
    """Run a script that makes something, unless it is made; its log is beside `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    log = path.with_name(f"{path.name}.log")
    # One process at a time; who waited finds it made.
    with path.with_name(f"{path.name}.lock").open("w") as lock, log.open("ab") as output:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if made():
            return
        output.truncate(0)
        status = subprocess.call(argv, stdout=output, stderr=output)
    why = log.read_text(errors="replace").strip()
    if status == CANNOT:
        raise ReleaseError(f"cannot make {path}: {why.rpartition(chr(10))[2]} (see {log})")
    if status:
        raise ProcessError(f"{argv[0]} ended with status {status}: {why[-2000:]}")
