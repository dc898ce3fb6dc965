"""What of Slurm this machine has, and as whom it can run here."""

import os
import shutil
from pathlib import Path

from tests.cluster.releases import native
from tests.databases import MariaDB
from tests.processes import Account, ProcessError, search_path

# Whatever the release of Slurm, these are this machine's.
PROGRAMS = ("munged", *MariaDB.programs)
SLURM = ("slurmdbd", "slurmctld", "slurmd", "slurmrestd", "sbatch", "sacct", "sinfo")


def missing_programs(release: str | None = None) -> list[str]:
    """List the programs this needs that this machine lacks, for its own or another release."""
    own = release in (None, native())
    return [name for name in (*PROGRAMS, *(SLURM if own else ())) if _find(name) is None]


def slurm_account(directory: Path) -> Account:
    """Choose SlurmUser: for root the user ``slurm`` if it can reach the directory, else oneself."""
    me = Account.mine()
    if me.uid != 0 or not all(_enterable(parent) for parent in directory.parents):
        return me
    try:
        return Account.of("slurm")
    except KeyError:
        return me


def _enterable(folder: Path) -> bool:
    return not folder.exists() or bool(folder.stat().st_mode & 0o001)


def _find(program: str) -> str | None:
    return shutil.which(program, path=search_path())


def real(program: str) -> str:
    """Give the full path of a program; ProcessError when it is not installed."""
    path = _find(program)
    if path is None:
        raise ProcessError(f"{program} is not installed")
    return path


def write_file(path: Path, content: bytes, mode: int, account: Account) -> None:
    """Write a file anew, never readable by more than `mode` says, and give it to `account`."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    path.chmod(mode)  # whatever the umask
    account.own(path)
