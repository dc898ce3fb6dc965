"""What happens where a real server cannot be had."""

from __future__ import annotations

import pytest

from tests.conftest import unavailable


def test_a_missing_server_skips_the_test_and_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("NIMO_REQUIRE_CLUSTER", raising=False)
    with pytest.raises(pytest.skip.Exception, match="not installed: munged; 'make test' as root"):
        unavailable("not installed: munged")


def test_a_missing_server_fails_the_test_where_none_may_be_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NIMO_REQUIRE_CLUSTER", "1")
    with pytest.raises(pytest.fail.Exception, match="not installed: munged"):
        unavailable("not installed: munged")
