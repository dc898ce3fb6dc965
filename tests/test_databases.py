"""The private database servers: reachable, empty for each test, gone afterwards."""

from collections.abc import Iterator

import pytest
import sqlalchemy as sa

TABLE = sa.Table("t", sa.MetaData(), sa.Column("name", sa.String(20)))


@pytest.fixture(params=["postgresql_url", "mariadb_url"])
def engine(request: pytest.FixtureRequest) -> Iterator[sa.Engine]:
    engine = sa.create_engine(request.getfixturevalue(request.param))
    yield engine
    engine.dispose()


@pytest.mark.database
@pytest.mark.parametrize("time", ["first", "second"])
def test_every_test_gets_an_empty_database(engine, time):
    TABLE.create(engine)  # fails if the table of the other time is still there
    with engine.begin() as connection:
        connection.execute(TABLE.insert(), {"name": "名前 😀"})
        assert connection.scalars(sa.select(TABLE.c.name)).all() == ["名前 😀"]
