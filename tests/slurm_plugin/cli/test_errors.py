import pytest

from sacct_ingest.errors import ConfigError, NimoError, NoHistory, StoreError
from slurm_plugin.cli.exit_status import INTERRUPTED, guarded


@pytest.mark.parametrize(
    ("error", "status"), [(ConfigError, 78), (StoreError, 74), (NoHistory, 3), (NimoError, 1)]
)
def test_our_errors_are_one_line_and_their_status(error, status, capsys):
    def command() -> int:
        raise error("nimo.yaml: modes: 'enfroce' is no mode; did you mean 'enforce'?")

    assert guarded("nimo", command) == status
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "nimo: nimo.yaml: modes: 'enfroce' is no mode; did you mean 'enforce'?\n"


def test_a_mistake_in_the_program_keeps_its_traceback():
    def command() -> int:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        guarded("nimo", command)


def test_interrupted_by_the_user():
    def command() -> int:
        raise KeyboardInterrupt

    assert guarded("nimo", command) == INTERRUPTED


def test_the_status_of_a_command_is_passed_on():
    assert guarded("nimo", lambda: 4) == 4
