"""The socket out of nimo.yaml without a reader of YAML; never another than that reader gives."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sacct_ingest.errors import ConfigError
from slurm_plugin.config.loader import parse
from slurm_plugin.config.settings import Advise
from slurm_plugin.config.settings_file import SOCKET, SYSTEM_FILE, leaves_out, socket_of

PLAIN = {
    "": SOCKET,
    "mode: enforce\n": SOCKET,
    "mode: enforce\nsocket: /srv/nimod.sock  # here\n": "/srv/nimod.sock",
    "# socket: /old.sock\nsocket: /srv/a_b+c.sock\n": "/srv/a_b+c.sock",
}
#: These the whole reader has to look at.
ODD = (
    "socket: '/srv/nimod.sock'\n",
    "socket:\n  /srv/nimod.sock\n",
    "{socket: /srv/nimod.sock}\n",
    "socket: /a.sock\nsocket: /b.sock\n",
    '"socket": /srv/nimod.sock\n',
    "web:\n  x: socket\n",
)


@pytest.mark.parametrize(("text", "socket"), PLAIN.items())
def test_plain_lines_are_read(tmp_path, text, socket):
    file = tmp_path / "nimo.yaml"
    file.write_text(text)
    assert socket_of(file) == socket == parse(text, name="nimo.yaml").socket


@pytest.mark.parametrize("text", ODD)
def test_others_are_left_to_the_reader_of_yaml(tmp_path, text):
    file = tmp_path / "nimo.yaml"
    file.write_text(text)
    assert socket_of(file) is None


def test_a_file_that_cannot_be_read_is_left_to_it_too(tmp_path):
    assert socket_of(tmp_path / "nothing.yaml") is None
    assert socket_of(None, {"NIMO_CONFIG": str(tmp_path)}) is None


@given(st.text(alphabet="socket:/ab.# \n'\"{}&*-\t", max_size=60))
def test_it_never_differs_from_the_reader_of_yaml(tmp_path_factory, text):
    file = tmp_path_factory.getbasetemp() / "fuzzed.yaml"
    file.write_text(text)
    quick = socket_of(file)
    try:
        whole = parse(text, name="nimo.yaml").socket
    except ConfigError:
        return
    assert quick in (None, whole)


@pytest.mark.parametrize(
    ("text", "left_out"),
    [
        ("", True),
        ("mode: enforce\n# advise: {calls: 2}\n", True),
        ("advise: {calls: 2}\n", False),
        ("{mode: observe, advise: {calls: 2}}\n", False),
        ('"\\x61dvise": {calls: 2}\n', False),
    ],
)
def test_a_section_that_the_file_leaves_out(tmp_path, text, left_out):
    file = tmp_path / "nimo.yaml"
    file.write_text(text)
    assert leaves_out("advise", file) == left_out
    assert (parse(text, name="nimo.yaml").advise == Advise()) == left_out


def test_of_a_file_that_cannot_be_read_nothing_is_certain(tmp_path):
    assert not leaves_out("advise", tmp_path / "nothing.yaml")
    assert leaves_out("advise", None, {}) == (not SYSTEM_FILE.exists())
