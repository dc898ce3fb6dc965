"""The gallery's outputs are those of its commands, to within a tenth of each number.

``python -m tests.docs.test_gallery`` writes them.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from random import Random

import pytest

from slurm_plugin.demo import sandbox
from tests.docs.pages import ROOT

PAGE = ROOT / "docs" / "gallery.md"
_NOW_S = 1_790_000_000.0
_BLOCK = re.compile(r"(?<=```console\n)\$ (.*)\n((?:.*\n)*?)(?=```)")
_NUMBER = re.compile(r"\d+(?::\d\d)+|\d+(?:\.\d+)?")


def make(folder):
    """Make the demo's store, two files of settings, and the environment of the commands."""
    site = sandbox.DemoSite(folder, folder / "no.sock")
    sandbox.prepare(site, user="ada", now_s=_NOW_S, rng=Random(5))
    settings = site.config.read_text()
    prices = "{node_watts: 450, pue: 1.3, node_hour: 0.8, currency: EUR, co2: 320}"
    (folder / "priced.yaml").write_text(f"{settings}energy: {prices}\n")
    (folder / "wrong.yaml").write_text("energy: {pue: 0.9}\n")
    path = f"{Path(sys.executable).parent}:{site.stand_ins}:{os.environ['PATH']}"
    user = {"NIMO_CONFIG": str(site.config), "USER": "ada", "COLUMNS": "80", "TZ": "UTC"}
    environment = {**os.environ, **user, "PATH": path}
    for command in (f"nimo ingest {sandbox.HISTORY}", "nimo fit --workers 1"):
        subprocess.run(
            command.split(), cwd=folder, env=environment, check=True, capture_output=True
        )
    return environment


def printed(command, folder, environment):
    words = command.split()
    words[1:1] = ["--user=ada"] if words[0] == "nimo-advise" and "--user=zoe" not in words else []
    run = subprocess.run(
        words, cwd=folder, env=environment, stdout=-1, stderr=-2, text=True, check=False
    )
    shown = [one for one in run.stdout.splitlines() if "reading the store" not in one]
    return "\n".join(one.rstrip() for one in shown).strip() + "\n"


def numbers(text):
    def value(word):
        seconds = 0.0
        for part in word.split(":"):
            seconds = 60 * seconds + float(part)
        return seconds

    return [value(word) for word in _NUMBER.findall(text)]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gallery")
    return folder, make(folder)


@pytest.mark.parametrize(("command", "shown"), _BLOCK.findall(PAGE.read_text()))
def test_a_command_prints_what_the_page_shows(site, command, shown):
    out = printed(command, *site)
    words = [" ".join(_NUMBER.sub("0", text).split()) for text in (shown, out)]
    assert words[0] == words[1]
    assert numbers(out) == pytest.approx(numbers(shown), rel=0.1)


def test_there_are_ten():
    assert len(_BLOCK.findall(PAGE.read_text())) == 10


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        made = make(Path(name))
        text = _BLOCK.sub(
            lambda one: f"$ {one[1]}\n{printed(one[1], Path(name), made)}", PAGE.read_text()
        )
    PAGE.write_text(text)
