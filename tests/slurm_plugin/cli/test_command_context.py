import os
import pwd
import time
from argparse import ArgumentTypeError

import pytest

from slurm_plugin.cli.command_context import moment, store_url
from slurm_plugin.cli.numbers import positive, share, whole
from slurm_plugin.slurm.job_request import user_name


def test_the_name_of_the_user():
    assert user_name() == pwd.getpwuid(os.getuid()).pw_name


def test_a_user_without_a_name_is_a_number(monkeypatch):
    monkeypatch.setattr(os, "getuid", lambda: 3_999_999_999)
    assert user_name() == "3999999999"


def test_a_moment_counts_from_now():
    assert moment("now-7days") == pytest.approx(time.time() - 7 * 86_400, abs=5)
    with pytest.raises(ArgumentTypeError, match="'whenever' is not a time; write it as 2026-01-31"):
        moment("whenever")


@pytest.mark.parametrize(
    ("read", "text", "reported"),
    [
        (whole, "-4", "'-4' is not a whole number from 0 on"),
        (whole, "²", "'²' is not a whole number"),
        (share, "1.01", "1.01 is not a share from 0 to 1"),
        (positive, "0", "0 is not above 0"),
        (positive, "inf", "inf is not above 0"),
        (positive, "nan", "nan is not above 0"),
        (share, "half", "'half' is not a number"),
    ],
)
def test_wrong_numbers_are_refused_with_what_is_right(read, text, reported):
    with pytest.raises(ArgumentTypeError, match=reported):
        read(text)


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("/srv/nimo.db", "sqlite:////srv/nimo.db"),
        ("sqlite:////srv/nimo.db", "sqlite:////srv/nimo.db"),
        ("mysql+pymysql://nimo@db/nimo", "mysql+pymysql://nimo@db/nimo"),
    ],
)
def test_a_path_is_an_sqlite_file(given, url):
    assert store_url(given) == url
