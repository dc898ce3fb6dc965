"""What happens where a real server cannot be had."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import unavailable


@dataclass(frozen=True)
class Item:
    """What the order of tests looks at."""

    path: Path
    long: bool = False

    def get_closest_marker(self, name: str) -> bool:
        return self.long and name == "long"


def test_a_missing_server_skips_the_test_and_says_what_to_do(monkeypatch):
    monkeypatch.delenv("NIMO_REQUIRE_CLUSTER", raising=False)
    with pytest.raises(pytest.skip.Exception, match="not installed: munged; 'make test' as root"):
        unavailable("not installed: munged")


def test_a_missing_server_fails_the_test_where_none_may_be_missing(monkeypatch):
    monkeypatch.setenv("NIMO_REQUIRE_CLUSTER", "1")
    with pytest.raises(pytest.fail.Exception, match="not installed: munged"):
        unavailable("not installed: munged")
