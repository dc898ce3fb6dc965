import os
import pwd
import time
from argparse import ArgumentTypeError
from pathlib import Path

import pytest

from slurm_plugin.cli.command_context import moment, store_url
from slurm_plugin.cli.common_options import positive, share, whole
from slurm_plugin.cli.nimo import main
from slurm_plugin.config.loader import parse
from slurm_plugin.slurm.job_request import user_name


def test_the_name_of_the_user():
    assert user_name() == pwd.getpwuid(os.getuid()).pw_name


def test_a_user_without_a_name_is_a_number(monkeypatch):
    monkeypatch.setattr(os, "getuid", lambda: 3_999_999_999)
    assert user_name() == "3999999999"


def test_a_moment_counts_from_now():
    before_s = int(time.time())
    assert before_s <= moment("now-7days") + 7 * 86_400 <= time.time()
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


@pytest.fixture
def config_file(tmp_path):
    path = tmp_path / "nimo.yaml"
    path.write_text("mode: enforce\npolicy:\n  price: 4\n")
    return path


def test_prints_all_that_is_in_force(config_file, capsys):
    assert main(["config", str(config_file)]) == 0
    out, err = capsys.readouterr()
    shown = parse(out, name="printed")
    assert shown.mode == "enforce"
    assert shown.policy.price == 4
    assert "guard_ratio: 1.25" in out
    assert str(config_file) in err
    assert main(["config", "--config", str(config_file)]) == 0
    assert capsys.readouterr().out == out


def test_the_environment_names_the_file(config_file, capsys, monkeypatch):
    monkeypatch.setenv("NIMO_CONFIG", str(config_file))
    assert main(["config"]) == 0
    assert "mode: enforce" in capsys.readouterr().out


def test_check_is_silent_when_all_is_well(config_file, capsys):
    assert main(["config", "--check", str(config_file)]) == 0
    assert capsys.readouterr().out == ""


def test_a_wrong_file_is_one_line_with_the_fix(config_file, capsys):
    config_file.write_text("polcy: {price: 4}\n")
    assert main(["config", str(config_file)]) == 78
    out, err = capsys.readouterr()
    assert out == ""
    assert err == f"nimo: {config_file}: polcy: unknown key; did you mean 'policy'?\n"


def test_hook_path_is_a_folder_of_the_package(capsys):
    assert main(["hook-path"]) == 0
    folder = Path(capsys.readouterr().out.strip())
    assert folder.is_dir()
    assert (folder / "job_submit.lua").is_file()
