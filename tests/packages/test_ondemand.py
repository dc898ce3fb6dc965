"""The plugin of Open OnDemand: Ruby's own tests, with what the commands answer here."""

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from predictor.facts import Ending, Longest, ResourceUse
from predictor.types import Point, Verdict
from sacct_ingest.runs.layout import Layout, Unit
from slurm_plugin.protocol.status_messages import WaitRow, Waits
from slurm_plugin.text.streams import json_text
from tests.slurm_plugin.made import table

PLUGIN = Path(__file__).parents[2] / "packages" / "ondemand"
RUBY = shutil.which("ruby")
NIMO = """\
#!/bin/sh
case "$*" in
  "predict --json"|"predict solve --json") cat {0}/reliable ;;
  "predict doubtful --json") cat {0}/doubtful ;;
  "predict slow --json") exec sleep 60 ;;
  "predict broken --json") echo '[{{' ;;
  "wait --json") cat {0}/waits ;;
  *) exit 3 ;;
esac
"""


def minitest():
    return (
        RUBY is not None
        and not subprocess.run(
            [RUBY, "-e", "require 'minitest'"], capture_output=True, check=False
        ).returncode
    )


@pytest.mark.skipif(not minitest(), reason="Ruby with minitest (ruby-minitest) is not installed")
def test_the_plugin(tmp_path):
    usual = tuple(Point(n, 1000.0, repeats=n % 5) for n in (1, 2, 4, 8))
    made = table(
        label="<b>solve",
        layout=Layout(cpus=48),
        longest=(Longest(4, 7300.0),),
        endings=(Ending("COMPLETED", 17), Ending("TIMEOUT", 3)),
        uses=(ResourceUse(Unit.CPUS, 0.62, 0.5, 0.7, 9, 6, 6),),
    )
    at = {"start_s": 1_790_416_800.0, "low_s": 1_790_415_000.0, "high_s": 1_790_424_000.0}
    (tmp_path / "reliable").write_text(json_text([replace(made, observed=usual)]))
    (tmp_path / "doubtful").write_text(json_text([table(verdict=Verdict.DOUBTFUL)]))
    rows = [WaitRow(job_id=4711, name="jupyter", **at), WaitRow(job_id=4712)]
    (tmp_path / "waits").write_text(json_text(Waits(rows=rows)))
    command = tmp_path / "nimo"
    command.write_text(NIMO.format(tmp_path))
    command.chmod(0o755)
    done = subprocess.run(
        [str(RUBY), PLUGIN / "test" / "nimo_test.rb"],
        env={**os.environ, "NIMO_COMMAND": str(command)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert ", 0 skips" in done.stdout
