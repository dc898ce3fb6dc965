from pathlib import Path

import pytest

from slurm_plugin.cli.nimo import main
from slurm_plugin.config.loader import parse


@pytest.fixture
def config_file(tmp_path: Path) -> Path:
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
