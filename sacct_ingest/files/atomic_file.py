"""Files that are written whole or not at all, and locks on them: the only place that makes either.

A folder may be shared with others, as ``/tmp`` is.  So a new file gets a name that no one can
guess, no symbolic link is followed, and a lock is not left where others could make it first.
"""

import fcntl
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO, Final

from sacct_ingest.errors import NimoError

#: Whoever may read a lock may take it, so others may not.
_LOCK_MODE: Final = 0o660


class Busy(OSError):  # noqa: N818 - a noun
    """Another process has the lock; ``pid`` is its id, if it wrote one."""

    def __init__(self, path: Path, pid: int | None) -> None:
        super().__init__(f"{path}: another process has it" + (f" ({pid})" if pid else ""))
        self.pid = pid


def write(path: Path, data: bytes, *, mode: int | None = None, synced: bool = True) -> None:
    """Put a file in the place of the one before; it is on the disk when this returns.

    mode: permissions; None: those that the umask leaves to a new file.
    synced: wait for the disk; what is worth nothing after a restart need not.
    Raises OSError: it cannot be written; what was there is there still.
    """
    with replacing(path, mode=mode, synced=synced) as file:
        file.write(data)


@contextmanager
def replacing(path: Path, *, mode: int | None = None, synced: bool = True) -> Iterator[BinaryIO]:
    """Give a new file that takes the place of the one before once the context is left well.

    What is no regular file, such as a pipe or ``/dev/stdout``, is written to as it is.

    Raises OSError: it cannot be written; what was there is there still.
    """
    if path.is_relative_to("/dev") or (path.exists() and not path.is_file()):
        with path.open("wb") as file:
            yield file
        return
    # By a descriptor: no one can put another folder in its place meanwhile.
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    name = f".{path.name[:200]}.{secrets.token_hex(8)}"
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(name, flags, 0o666, dir_fd=folder), "wb") as file:  # noqa: PTH123
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            yield file
            file.flush()
            if synced:
                os.fsync(file.fileno())
        os.rename(name, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        if synced:
            os.fsync(folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(name, dir_fd=folder)
        raise
    finally:
        os.close(folder)


@contextmanager
def locked(
    path: Path, *, suffix: str = ".lock", waiting: Callable[[], None] | None = None
) -> Iterator[None]:
    """Keep every other process out that locks the same file; the lock ends with this process.

    path: the file, which need not be there; the lock is beside it.  In a folder that everybody may
        write to it would be anybody's, so there it is in a folder of the user's own.
    waiting: called once before waiting for another process; None: do not wait.
    Raises Busy: another process has it, and ``waiting`` is None; OSError: the lock cannot be made,
        or something else has its name.
    """
    most = path.stat().st_mode if path.exists() else _LOCK_MODE
    file = _opened(_lock_of(path, suffix), most & _LOCK_MODE)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if waiting is None:
                text = os.pread(file, 20, 0)
                raise Busy(path, int(text) if text.isdigit() else None) from error
            waiting()
            fcntl.flock(file, fcntl.LOCK_EX)
        # Who has the lock, for `Busy`; what stood there is overwritten.
        with suppress(OSError):
            os.ftruncate(file, 0)
            os.pwrite(file, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(file)


@contextmanager
def alone(path: Path, *, program: str, fix: str) -> Iterator[None]:
    """Keep a second run of a program away from a file that it goes on with.

    program, fix: what the other process is, and what to do where the folder cannot be written, for
        people.
    Raises NimoError: there is a second run, or the lock cannot be made.
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(path))
        except Busy as error:
            process = f" (process {error.pid})" if error.pid else ""
            raise NimoError(f"{path}: another {program}{process} is at work with it") from error
        except OSError as error:
            raise NimoError(f"{path}: {error.strerror or error}; {fix}") from error
        yield


def _lock_of(path: Path, suffix: str) -> Path:
    folder = path.parent.resolve()
    if not folder.stat().st_mode & stat.S_IWOTH:
        return folder / f"{path.name}{suffix}"
    own = _own_folder()
    digest = blake2b(os.fsencode(folder / path.name), digest_size=12).hexdigest()
    return own / f"{digest}{suffix}"


def _own_folder() -> Path:
    base = os.environ.get("XDG_RUNTIME_DIR") or os.environ.get("XDG_CACHE_HOME")
    own = Path(base or os.path.expanduser("~/.cache")) / "nimo" / "locks"  # noqa: PTH111
    own.mkdir(mode=0o700, parents=True, exist_ok=True)
    made = own.lstat()
    if not stat.S_ISDIR(made.st_mode) or made.st_uid != os.geteuid() or made.st_mode & 0o022:
        raise PermissionError(1, f"{own} has to be a folder that only you may write to")
    return own


def _opened(path: Path, mode: int) -> int:
    flags = os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        file = os.open(path, os.O_RDWR | flags, mode)
    except PermissionError:
        # Another user of the same group made it: it can be taken without being signed.
        file = os.open(path, os.O_RDONLY | flags, mode)
    status = os.fstat(file)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
        os.close(file)
        raise FileExistsError(17, f"{path} is no lock of ours; move it away")
    if status.st_uid == os.geteuid() and stat.S_IMODE(status.st_mode) & ~mode:
        os.fchmod(file, stat.S_IMODE(status.st_mode) & mode)
    return file
