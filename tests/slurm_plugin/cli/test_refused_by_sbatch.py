"""What sbatch refuses gets no advice: each answer is held against a real sbatch's."""

import io
import re
import subprocess
import sys
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sacct_ingest.errors import ScriptError
from sacct_ingest.scripts.job_script import parse_command_line
from slurm_plugin.cli.advice_requests import unknown_option
from slurm_plugin.cli.advise import main as advise
from slurm_plugin.cli.sbatch_request import needs_slurm, refusal_of, request

SCRIPTS = {
    "DOS line ends": b"#!/bin/sh\r\n#SBATCH -N1\r\nsleep 1\r\n",
    "DOS line ends in one line": b"#!/bin/sh\n#SBATCH -N1\nsleep 1\r\nsleep 2\n",
    "old Mac line ends": b"#!/bin/sh\r#SBATCH -N1\rsleep 1\r",
    "no interpreter": b"sleep 1\n",
    "blank line first": b"\n#!/bin/sh\nsleep 1\n",
    "byte order mark": b"\xef\xbb\xbf#!/bin/sh\nsleep 1\n",
    "empty": b"",
    "blanks": b" \n\t\v\f\r\n",
    "a NUL": b"#!/bin/sh\nsleep 1\n\0\nsleep 2\n",
    "a NUL first": b"\0#!/bin/sh\nsleep 1\n",
    "a program": b"\x7fELF\0\0abc",
    "half an interpreter": b"#",
    "an empty interpreter": b"#!",
    "an interpreter that is not there": b"#!/no/such\nsleep 1\n",
    "too large": b"#!/bin/sh\n" + b"# x\n" * (1 << 20) + b"sleep 1\n",
    "large": b"#!/bin/sh\n" + b"# x\n" * (3 << 18) + b"sleep 1\n",
}
#: Pieces of scripts, of which any may stand anywhere.
PIECES = (
    *(
        b"#!/bin/sh\n",
        b"#!/bin/sh\r\n",
        b"#!",
        b"#SBATCH -N1\n",
        b"sleep 1\n",
        b"\r",
        b"\n",
        b"\r\n",
    ),
    *(b"\0", b" ", b"\t\v", b"\xef\xbb\xbf", b"\xff\xfe", b"#"),
)
#: Command lines, all with a script that sbatch takes.
ARGUMENTS = (
    *(["--nosuch"], ["-N", "x"], ["-t", "x"], ["-N", "4-2"], ["-n", "0"], ["-c", "0"], ["--mem=x"]),
    *(["--deadline=x"], ["--begin=x"], ["--array=x"], ["--array=5-1"], ["--dependency=x"]),
    *(["--gres=x"], ["-p", "nosuch"], ["--exclusive=foo"], ["--mail-type=foo"], ["-L", "foo"]),
    *(["-C", "nosuch"], ["-w", "nosuch"], ["--hint=foo"], ["--signal=foo"], ["--open-mode=x"]),
    *(["--kill-on-invalid-dep=x"], ["-m", "foo"], ["--time-min=20", "-t10"], ["--wrap=true"]),
    *(["--chdir=/no/such"], ["--comment=" + "x" * 2000], ["-n", "99999999999"]),
)
#: Those that need no question to Slurm.
USUAL = (
    *(["-J", "plain"], ["-t", "10", "-N", "1-2"], ["--nice=5"], ["--exclusive"]),
    *(["--hint=nomultithread"], ["--mail-type=END,FAIL"], ["--signal=B:USR1@60"]),
    *(["-m", "cyclic:block"], ["--open-mode=append"], ["--kill-on-invalid-dep=yes"]),
)
#: Lines of a script that sbatch refuses or takes.
DIRECTIVES = (
    *("--nosuch=3", "-N x", "-t x", "foo", '--job-name="abc', "--comment=" + "x" * 2000),
    *("-N 1 # four", "-J 'big run'", '--job-name="a b"', "--mail-type=foo", "--mail-type=END"),
)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("DOS line ends", r"DOS line breaks.*sed -i 's/\\r\$//' "),
        ("no interpreter", "does not look like a batch script.*#!/bin/bash"),
        ("byte order mark", "byte order mark: sed -i "),
        ("empty", "Batch script is empty!"),
        ("blanks", "only whitespace"),
        ("a NUL", "NULL character"),
        ("too large", "too long.*max_script_size"),
    ],
)
def test_a_refused_script_gets_the_words_of_sbatch_and_how_to_mend_it(
    name, words, tmp_path, capsys, monkeypatch
):
    path = tmp_path / "job.sh"
    path.write_bytes(SCRIPTS[name])
    for argv, data in (([str(path)], b""), ([], SCRIPTS[name])):
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data), isatty=bool))
        assert advise(argv) == 66
        out, err = capsys.readouterr()
        assert out == ""
        assert re.search(words, err)


@pytest.mark.parametrize("mended", ["s/\\r$//", "1s/^\\xEF\\xBB\\xBF//"])
def test_what_is_to_be_pasted_mends_the_script(mended, tmp_path):
    path = tmp_path / "job.sh"
    path.write_bytes(b"\xef\xbb\xbf#!/bin/sh\n" if "xEF" in mended else SCRIPTS["DOS line ends"])
    assert f"sed -i '{mended}' {path}" in refusal_of(path.read_bytes(), str(path))
    subprocess.run(["sed", "-i", mended, str(path)], check=True)
    assert refusal_of(path.read_bytes(), str(path)) == ""


def test_an_empty_wrap_is_no_script_from_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    assert request(["--wrap="], user="")["script"].startswith("#!/bin/sh\n")


def judged(words):
    """Whether nimo-advise refuses these words, or asks Slurm about them."""
    if unknown_option(parse_command_line(["sbatch", *words])):
        return True
    try:
        return needs_slurm(request(words, user=""), words, 8)
    except ScriptError:
        return True


class Sbatch:
    """A real sbatch, and what nimo-advise does with the same words."""

    def __init__(self, cluster):
        self.cluster, self.folder = cluster, cluster.layout.work
        self.plain = self.script("plain.sh", b"#!/bin/sh\nsleep 1\n")

    def script(self, name, data):
        path = self.folder / name
        path.write_bytes(data)
        return str(path)

    def refuses(self, *words):
        done = self.cluster.run("sbatch", "--hold", *words, check=False)
        return done.stderr if done.returncode else ""


@pytest.fixture(scope="module")
def sbatch(slurm):
    yield Sbatch(slurm)
    slurm.run("scancel", "--me")


@pytest.mark.releases
def test_scripts_are_refused_as_sbatch_does(sbatch):
    for name, data in SCRIPTS.items():
        path = sbatch.script("job.sh", data)
        theirs, own = sbatch.refuses(path), refusal_of(data, path)
        assert bool(theirs) == bool(own), (name, theirs, own)
        said = " ".join(theirs.replace("sbatch: error:", "").split())
        words = own.partition("refuses this script: ")[2].partition("  To mend")[0]
        assert words in said, name


@pytest.mark.releases
@given(pieces=st.lists(st.sampled_from(PIECES), max_size=5))
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
def test_random_scripts_are_refused_as_sbatch_does(sbatch, pieces):
    data = b"".join(pieces)
    path = sbatch.script("random.sh", data)
    assert bool(sbatch.refuses(path)) == bool(refusal_of(data, path))


@pytest.mark.releases
def test_what_sbatch_refuses_is_refused_or_left_to_slurm(sbatch):
    """Slurm is asked with --test-only, and its words are given."""
    lines = [
        [sbatch.script("lines.sh" + str(at), f"#!/bin/sh\n#SBATCH {line}\ntrue\n".encode())]
        for at, line in enumerate(DIRECTIVES)
    ]
    for words in [*([*words, sbatch.plain] for words in ARGUMENTS), *lines]:
        if not sbatch.refuses(*words):
            continue
        assert judged(words), words


@pytest.mark.releases
def test_usual_options_spare_slurm_the_question(sbatch):
    for words in USUAL:
        assert not sbatch.refuses(*words, sbatch.plain), words
        line = [*words, sbatch.plain]
        assert not needs_slurm(request(line, user=""), line, 8), words
