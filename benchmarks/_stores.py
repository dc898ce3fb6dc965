"""Empty stores on SQLite and on real servers, for benchmarks."""

import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path

from sacct_ingest.store.engine import make_engine

Fresh = Callable[[], AbstractContextManager[str]]


def stores(stack: ExitStack, folder: Path, kinds: Sequence[str]) -> dict[str, Fresh]:
    """Give contexts with the URL of an empty store, of those kinds that can be had here.

    kinds: of sqlite, postgresql and mariadb; servers are private ones, as the tests have them.
    """
    result: dict[str, Fresh] = {}
    for kind in kinds:
        if kind == "sqlite":
            result[kind] = lambda: _sqlite(folder)
        elif fresh := _server(stack, kind):
            result[kind] = fresh
    return result


def server_cpu_s(url: str) -> float:
    """CPU time of a store's server and of all processes that it has started; 0: SQLite."""
    if "://" not in url:
        return 0.0
    engine = make_engine(url, create=False)
    postgresql = engine.dialect.name == "postgresql"
    with engine.connect() as connection:
        place = "SHOW data_directory" if postgresql else "SELECT @@pid_file"
        path = Path(connection.exec_driver_sql(place).scalar_one())
    engine.dispose()
    server = int((path / "postmaster.pid" if postgresql else path).read_text().split()[0])
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended meanwhile
            fields = stat.read_text().rpartition(")")[2].split()
            if server in (int(stat.parent.name), int(fields[1])):
                ticks += sum(map(int, fields[11:15]))  # with those of its ended children
    return ticks / os.sysconf("SC_CLK_TCK")


@contextmanager
def _sqlite(folder: Path) -> Iterator[str]:
    with tempfile.TemporaryDirectory(dir=folder) as inner:
        yield f"{inner}/nimo.db"


def _server(stack: ExitStack, kind: str) -> Fresh | None:
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from tests.conftest import database_server, fresh_database  # noqa: PLC0415
    from tests.databases import (  # noqa: PLC0415
        MariaDB,
        PostgreSQL,
        missing_programs,
        unprivileged,
    )
    from tests.processes import Account  # noqa: PLC0415

    server = {"postgresql": PostgreSQL, "mariadb": MariaDB}[kind]
    if missing := missing_programs(server):
        print(f"no {kind}: not installed: {', '.join(missing)}", file=sys.stderr)
        return None
    account = unprivileged() if kind == "postgresql" else Account.mine()
    running = stack.enter_context(database_server(server, account))
    return lambda: fresh_database(running)
