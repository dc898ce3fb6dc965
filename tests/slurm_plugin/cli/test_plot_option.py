"""``--plot`` of nimo predict and nimo-advise."""

import os
import subprocess
import sys

import pytest

from slurm_plugin.cli import advise
from slurm_plugin.cli.nimo import main


@pytest.mark.parametrize(
    "words", [["wrf-d02", "--plot"], ["--plot", "wrf-d02"], ["--plot", "--all", "wrf-d02"]]
)
def test_predict_draws_on_the_terminal(words, use, capsys):
    assert main(["predict", *words]) == 0
    out = capsys.readouterr().out
    assert "verdict: " in out
    assert "● observed" in out


def test_predict_draws_into_a_file(use, tmp_path, capsys):
    file = tmp_path / "wrf.svg"
    assert main(["predict", "wrf-d02", "--json", "--plot", str(file)]) == 0
    assert capsys.readouterr().out.startswith("[{")
    assert "ada/wrf-d02" in file.read_text()


def test_another_suffix_is_refused(use, tmp_path, capsys):
    assert main(["predict", "wrf-d02", "--plot", str(tmp_path / "wrf.gif")]) == 73
    assert ".svg, .png, .pdf" in capsys.readouterr().err


def test_a_file_holds_one_curve(use, tmp_path, capsys):
    assert main(["predict", "melt", "--plot", str(tmp_path / "melt.svg")]) == 73
    reported = capsys.readouterr().err
    assert "choose one by its key: " in reported
    assert "ravi/lammps/melt (tag)" in reported
    assert main(["predict", "lammps/melt", "--plot", str(tmp_path / "melt.svg")]) == 0


def test_an_encoding_without_the_signs_is_reported(use):
    code = "import sys; from slurm_plugin.cli.nimo import main; sys.exit(main(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", code, "predict", "wrf-d02", "--plot"],
        capture_output=True,
        encoding="latin-1",
        check=False,
        env=os.environ | {"PYTHONIOENCODING": "latin-1", "PYTHONUTF8": "0"},
    )
    assert done.returncode == 73
    assert "--plot=curve.svg writes a file" in done.stderr


def test_advise_draws_and_recommends(use, tmp_path, capsys):
    words = ["--user", "ada", "--store", str(use.store)]
    assert advise.main([*words, "--plot", "wrf.sh", "d02"]) == 0
    out = capsys.readouterr().out
    assert out.index("#SBATCH --nodes=") < out.index("◆ recommended: ")
    file = tmp_path / "wrf.png"
    assert advise.main([*words, "--plot", str(file), "wrf.sh", "d02"]) == 0
    assert "recommended" not in capsys.readouterr().out
    assert file.read_bytes().startswith(b"\x89PNG")


def test_an_unknown_job_has_nothing_to_draw(use, tmp_path, capsys):
    script = tmp_path / "new.sh"
    script.write_text("#!/bin/sh\nsrun ./never-seen\n")
    assert advise.main(["--store", str(use.store), "--plot", str(script)]) == 3
    assert "nothing to draw yet" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--json", "-P"])
def test_lines_for_scripts_and_a_drawing_do_not_mix(option):
    with pytest.raises(SystemExit) as ended:
        advise.main([option, "--plot", "job.sh"])
    assert ended.value.code == 2


def test_a_list_is_not_drawn(use, capsys):
    assert main(["predict", "--plot"]) == 73
    assert "which application?" in capsys.readouterr().err
