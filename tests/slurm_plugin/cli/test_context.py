import os
import pwd
import time

import pytest

from slurm_plugin.cli.context import moment, store_url, user_name


def test_the_name_of_the_user() -> None:
    assert user_name() == pwd.getpwuid(os.getuid()).pw_name


def test_a_user_without_a_name_is_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 3_999_999_999)
    assert user_name() == "3999999999"


def test_a_moment_counts_from_now() -> None:
    assert moment("now-7days") == pytest.approx(time.time() - 7 * 86_400, abs=5)
    with pytest.raises(ValueError, match="whenever"):
        moment("whenever")


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("/srv/nimo.db", "sqlite:////srv/nimo.db"),
        ("sqlite:////srv/nimo.db", "sqlite:////srv/nimo.db"),
        ("mysql+pymysql://nimo@db/nimo", "mysql+pymysql://nimo@db/nimo"),
    ],
)
def test_a_path_is_an_sqlite_file(given: str, url: str) -> None:
    assert store_url(given) == url
