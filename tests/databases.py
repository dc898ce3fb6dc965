"""Private MariaDB and PostgreSQL servers for tests: one directory, one Unix socket, no password."""

import fcntl
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Protocol

from tests.processes import LONGEST_WAIT_S, Account, ProcessError, Processes, search_path

SMALL_LOG = "--innodb-log-file-size=8M"  # instead of 96 MB, which take time to write


class Server(Protocol):
    """What both kinds of database server offer."""

    directory: Path

    def up(self) -> None:
        """Initialise the data directory if it is new, start the server, wait until it answers."""

    def down(self) -> None:
        """Stop the server; its data stays."""

    def create(self, database: str) -> str:
        """Create an empty database and give its SQLAlchemy URL."""

    def drop(self, database: str) -> None:
        """Drop a database."""


@dataclass(slots=True)
class MariaDB:
    """A MariaDB server.

    directory: holds the data in ``db`` and the socket ``mariadb.sock``.
    processes: starts and stops it.
    account: who it runs as, and whom it trusts with everything.
    installed: folder of data directories as they are when they are new, which servers copy; the
        first one of an account puts it there. None: the data directory is installed anew.
    """

    directory: Path
    processes: Processes
    account: Account = field(default_factory=Account.mine)
    installed: Path | None = None

    programs: ClassVar[tuple[str, ...]] = ("mariadbd", "mariadb-install-db", "mariadb")

    @property
    def socket(self) -> Path:
        """Name the Unix socket on which it listens."""
        return self.directory / "mariadb.sock"

    def up(self) -> None:
        """Initialise the data directory if it is new, start the server, wait until it answers."""
        data = self.directory / "db"
        if not (data / "mysql").is_dir():
            for folder in (data, self._temporary):
                folder.mkdir(exist_ok=True)
                self.account.own(folder)
            self._new_data(data)
        self.account.own(self.directory)
        self.processes.start(
            "mariadbd",
            [
                *("mariadbd", "--no-defaults", f"--user={self.account.name}", f"--datadir={data}"),
                *(f"--socket={self.socket}", "--skip-networking", "--skip-log-bin"),
                f"--tmpdir={self._temporary}",
                # What slurmdbd asks for, on versions that know it.
                *("--innodb-lock-wait-timeout=900", "--loose-innodb-snapshot-isolation=OFF"),
                # Tests need no durability.
                *("--innodb-flush-log-at-trx-commit=0", "--innodb-doublewrite=0"),
                "--loose-debug-no-sync",
                SMALL_LOG,
                *("--innodb-buffer-pool-size=32M", f"--pid-file={self.directory / 'mariadb.pid'}"),
            ],
            account=self.account,
        )
        self.processes.wait_for("mariadbd", self._answers)

    def down(self) -> None:
        """Stop the server; its data stays."""
        self.processes.stop("mariadbd")

    def create(self, database: str) -> str:
        """Create an empty database and give its SQLAlchemy URL."""
        self.execute(f"create database if not exists `{database}` character set utf8mb4")
        return (
            f"mysql+pymysql://{self.account.name}@localhost/{database}"
            f"?unix_socket={self.socket}&charset=utf8mb4"
        )

    def drop(self, database: str) -> None:
        """Drop a database."""
        self.execute(f"drop database `{database}`")

    def execute(self, sql: str) -> str:
        """Run SQL and give its result as tab-separated text."""
        argv = ["mariadb", "--no-defaults", f"--socket={self.socket}", "-N", "-B", "-e", sql]
        return _run(argv, self.account)

    def _answers(self) -> bool:
        try:
            return self.execute("select 1") == "1\n"
        except ProcessError:
            return False

    @property
    def _temporary(self) -> Path:
        """Its own folder for temporary tables: a server that starts removes what it finds there."""
        return self.directory / "db.tmp"

    def _new_data(self, data: Path) -> None:
        """Copy a new data directory; install one where none has been."""
        if self.installed is None:
            self._install(data)
            return
        template = self.installed / self.account.name
        with (self.installed / f"{template.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not template.exists():
                self._install(data)
                # One that is interrupted leaves no half of a template.
                partial = template.with_suffix(".partial")
                shutil.rmtree(partial, ignore_errors=True)
                shutil.copytree(data, partial)
                partial.rename(template)
                return
        shutil.copytree(template, data, dirs_exist_ok=True)
        self.account.own(*data.rglob("*"))

    def _install(self, data: Path) -> None:
        argv = [
            *("mariadb-install-db", "--no-defaults", f"--user={self.account.name}"),
            *(f"--datadir={data}", "--skip-test-db", "--auth-root-authentication-method=socket"),
            *(f"--auth-root-socket-user={self.account.name}", SMALL_LOG),
            f"--tmpdir={self._temporary}",
        ]
        _run(argv, self.account)


@dataclass(slots=True)
class PostgreSQL:
    """A PostgreSQL server.

    directory: holds the data in ``db`` and the socket.
    processes: starts and stops it.
    account: who it runs as; not root, which PostgreSQL refuses.
    """

    directory: Path
    processes: Processes
    account: Account

    programs: ClassVar[tuple[str, ...]] = ("postgres", "initdb", "psql")

    def up(self) -> None:
        """Initialise the data directory if it is new, start the server, wait until it answers."""
        data = self.directory / "db"
        self.account.own(self.directory)
        if not (data / "PG_VERSION").exists():
            _run(
                [
                    *(_postgresql("initdb"), "--no-sync", "--auth=trust", "--username=nimo"),
                    *("--encoding=UTF8", "--locale=C", "--pgdata", str(data)),
                ],
                self.account,
            )
        self.processes.start(
            "postgres",
            [
                *(_postgresql("postgres"), "-D", data, "-k", self.directory, "-h", ""),
                *("-c", "fsync=off", "-c", "shared_buffers=16MB"),
            ],
            account=self.account,
        )
        self.processes.wait_for("postgres", self._answers)

    def down(self) -> None:
        """Stop the server; its data stays."""
        self.processes.stop("postgres")

    def create(self, database: str) -> str:
        """Create an empty database and give its SQLAlchemy URL."""
        self.execute(f'create database "{database}"')
        return f"postgresql+psycopg://nimo@/{database}?host={self.directory}"

    def drop(self, database: str) -> None:
        """Drop a database, also one that somebody is still connected to."""
        self.execute(f'drop database "{database}" with (force)')

    def execute(self, sql: str) -> str:
        """Run SQL and give its result as text."""
        server = ["-h", str(self.directory), "-U", "nimo", "-d", "postgres"]
        return _run([_postgresql("psql"), "-X", "-q", "-A", "-t", *server, "-c", sql], self.account)

    def _answers(self) -> bool:
        try:
            return self.execute("select 1") == "1\n"
        except ProcessError:
            return False


def unprivileged() -> Account:
    """Give this process's account, or for root one that PostgreSQL accepts."""
    if os.geteuid() != 0:
        return Account.mine()
    try:
        return Account.of("postgres")
    except KeyError:
        return Account.of("nobody")


def missing_programs(kind: type[MariaDB] | type[PostgreSQL]) -> list[str]:
    """List the programs of a kind of server that this machine lacks."""
    find = _find if kind is MariaDB else _find_postgresql
    return [name for name in kind.programs if find(name) is None]


def _find(program: str) -> str | None:
    return shutil.which(program, path=search_path())


def _postgresql(program: str) -> str:
    path = _find_postgresql(program)
    if path is None:
        raise ProcessError(f"{program} is not installed")
    return path


def _find_postgresql(program: str) -> str | None:
    """Find a program on PATH or where Debian keeps PostgreSQL's, the newest version first."""
    result = sorted(
        Path("/usr/lib/postgresql").glob(f"*/bin/{program}"),
        key=lambda path: int(path.parts[-3]),
        reverse=True,
    )
    return str(result[0]) if result else _find(program)


def _run(argv: Sequence[str], account: Account) -> str:
    done: subprocess.CompletedProcess[str] = subprocess.run(
        argv,
        check=False,
        **account.popen_arguments(),
        cwd="/",
        text=True,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=LONGEST_WAIT_S,
    )
    if done.returncode != 0:
        raise ProcessError(f"{argv[0]}: {done.stdout[-1000:]}{done.stderr[-1000:]}")
    return done.stdout
