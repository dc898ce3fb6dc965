"""Stores of all three kinds."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import case, create_engine, delete, update

from sacct_ingest.store import Store
from sacct_ingest.store.counters import DONE, RULES_PLACE
from sacct_ingest.store.schema import counters, metadata
from tests.databases import Server

KINDS = (
    "sqlite",
    pytest.param("postgresql", marks=pytest.mark.database),
    pytest.param("mariadb", marks=pytest.mark.database),
)


@pytest.fixture(params=KINDS)
def new_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """URL of a database without tables, of each kind in turn."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'nimo.db'}"
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url


@pytest.fixture(scope="session")
def server_urls() -> dict[str, str]:
    """One database on each server for all tests that only need it empty: making one takes 1 s."""
    return {}


@pytest.fixture(params=KINDS)
def store_url(
    request: pytest.FixtureRequest, tmp_path: Path, server_urls: dict[str, str]
) -> Iterator[str]:
    """URL of an empty store, of each kind in turn."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'nimo.db'}"
        return
    if request.param not in server_urls:
        server: Server = request.getfixturevalue(f"{request.param}_server")
        server_urls[request.param] = server.create("nimo_store_tests")
    yield server_urls[request.param]
    wipe(server_urls[request.param])


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    """An empty store, of each kind in turn."""
    with Store.open(store_url) as store:
        yield store


@pytest.fixture
def sqlite_store(tmp_path: Path) -> Iterator[Store]:
    """An empty store of the default kind."""
    with Store.open(str(tmp_path / "nimo.db")) as store:
        yield store


def wipe(url: str) -> None:
    """Delete all rows and start counting anew."""
    engine = create_engine(url)
    with engine.begin() as connection:
        for table in reversed(metadata.sorted_tables):
            if table is not counters:
                connection.execute(delete(table))
        values = {"runs": 1, RULES_PLACE: DONE}
        first = case(values, value=counters.c.name, else_=0)
        connection.execute(update(counters).values(value=first))
    engine.dispose()
