"""What all commands have in common with Slurm's own."""

import os
import pty
import signal
import subprocess
import sys

import pytest

from slurm_plugin.cli import advise, nimo
from tests.processes import LONGEST_WAIT_S

#: Every command: how it is called, and the words that begin it.
COMMANDS = {
    "nimo": (nimo.main, []),
    "nimo-advise": (advise.main, []),
    **{f"nimo {name}": (nimo.main, name.split()) for name in nimo.COMMANDS},
}
#: Option -> what stdout begins with; each ends with status 0.
ASKED = {
    "--help": "usage: {}",
    "-h": "usage: {}",
    "--usage": "usage: {}",
    "-V": "nimo 0",
    "--version": "nimo 0",
}
#: A test run in the background of a shell hands on that Ctrl-C is ignored.
CODE = (
    "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "from slurm_plugin.cli.{} import main; sys.exit(main(sys.argv[1:]))"
)


@pytest.mark.parametrize("option", ASKED)
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_tells_what_it_is(command, option, capsys):
    main, words = COMMANDS[command]
    with pytest.raises(SystemExit) as ended:
        main([*words, option])
    out, err = capsys.readouterr()
    assert ended.value.code == 0
    assert out.startswith(ASKED[option].format(command))
    assert ("examples:" in out) is (option in ("--help", "-h") and command != "nimo")
    assert err == ""


@pytest.mark.parametrize("command", COMMANDS)
def test_help_folds_its_prose(command, capsys):
    main, words = COMMANDS[command]
    with pytest.raises(SystemExit):
        main([*words, "--help"])
    text, _, _ = capsys.readouterr().out.partition("examples:")  # those are to be pasted
    assert [line for line in text.splitlines() if len(line) > 80] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_an_unknown_option_is_status_2_on_stderr(command, capsys, tmp_path):
    main, words = COMMANDS[command]
    with pytest.raises(SystemExit) as ended:
        main([*words, "--frobnicate", str(tmp_path)])
    out, err = capsys.readouterr()
    assert ended.value.code == 2
    assert out == ""
    assert f"{command}: error: " in err


@pytest.mark.parametrize(
    ("word", "fix"),
    [
        ("sttaus", "did you mean 'status'?"),
        ("reprot", "did you mean 'report'?"),
        ("xyz", "there are: predict, wait, "),
    ],
)
def test_a_misspelt_command_names_the_nearest(word, fix, capsys):
    with pytest.raises(SystemExit) as ended:
        nimo.main([word, "-P"])
    assert ended.value.code == 2
    assert f"nimo: error: there is no command {word!r}; {fix}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("program", "words"),
    [("nimo", ["config"]), ("nimo", ["fit", "--help"]), ("advise", ["--help"]), ("nimo", ["-V"])],
)
def test_a_reader_that_is_gone_is_no_news(program, words, tmp_path):
    (tmp_path / "nimo.yaml").write_text("mode: observe\n")
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-c", CODE.format(program), *words],
        stdout=writer,
        stderr=subprocess.PIPE,
        check=False,
        # Buffered, as everywhere but under some test runners.
        env=os.environ | {"NIMO_CONFIG": str(tmp_path / "nimo.yaml"), "PYTHONUNBUFFERED": ""},
    )
    os.close(writer)
    # What is longer than the buffer fails inside argparse, which says nothing.
    assert done.returncode in ((141,) if words == ["config"] else (0, 141))
    assert done.stderr in (b"", f"# from {tmp_path}/nimo.yaml\n".encode())


@pytest.mark.parametrize(("program", "words"), [("nimo", ["ingest"]), ("advise", [])])
def test_ctrl_c_is_quiet(program, words, tmp_path):
    os.mkfifo(tmp_path / "file")
    argv = [*words, "--store", str(tmp_path / "nimo.db"), str(tmp_path / "file")]
    process = subprocess.Popen(
        [sys.executable, "-c", CODE.format(program), *argv],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with (tmp_path / "file").open("wb"):  # waits until the command reads
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=LONGEST_WAIT_S)
    assert process.returncode == 130
    assert (out, err) == (b"", b"")


def written_to(ends, *argv, env):
    """How `nimo` ended, and what it wrote to the second of two connected ends."""
    ours, theirs = ends
    command = [sys.executable, "-c", CODE.format("nimo"), *argv]
    done = subprocess.run(command, stdout=theirs, stderr=subprocess.PIPE, check=False, env=env)
    os.close(theirs)
    text = os.read(ours, 100_000)
    os.close(ours)
    return done, text


@pytest.mark.parametrize(("environment", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_colour_on_a_terminal_that_wants_it(environment, coloured, tmp_path):
    (tmp_path / "nimo.yaml").write_text(f"store: sqlite:///{tmp_path}/none.db\n")
    inherited = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
    names = {"NIMO_CONFIG": "nimo.yaml", "PATH": "", "SLURM_CONF": "slurm.conf"}
    paths = {key: str(tmp_path / name) for key, name in names.items()}
    env = inherited | paths | {"TERM": "xterm"} | environment
    done, text = written_to(pty.openpty(), "doctor", env=env)
    assert done.returncode == 1
    assert b"configuration" in text
    assert (b"\033[" in text) is coloured


@pytest.mark.parametrize(
    ("terminal", "shown"), [(False, "cluster: tür".encode()), (True, rb"cluster: t\xfcr")]
)
def test_names_that_the_locale_has_no_letters_for(terminal, shown, tmp_path):
    (tmp_path / "nimo.yaml").write_text("cluster: tür\n", encoding="utf-8")
    env = os.environ | {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    ends = pty.openpty() if terminal else os.pipe()
    done, text = written_to(ends, "config", str(tmp_path / "nimo.yaml"), env=env)
    assert done.returncode == 0, done.stderr
    assert shown in text
