"""Who asks nimod, who reads the store: on login nodes nobody does the latter."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sacct_ingest.errors import StoreError
from slurm_plugin.cli import advise, nimo
from slurm_plugin.cli.through_nimod import may_read_store, nimod_or_store
from slurm_plugin.config.settings import Config, RelaySettings
from slurm_plugin.nimod.client import LinkDown, Unanswered, Unreachable
from slurm_plugin.store_access import open_store

LOGIN_NODE = Config(relay=RelaySettings(controllers=("ctl1",)))


def unread(*_config):
    raise AssertionError("the store was read")


def asked(error):
    def ask():
        raise error

    return nimod_or_store(lambda: LOGIN_NODE, ask, unread, store_named=False)


@pytest.mark.parametrize("uid", [0, 4711])
def test_on_a_login_node_no_store_is_read_whoever_asks(monkeypatch, uid):
    monkeypatch.setattr("os.geteuid", lambda: uid)
    assert not may_read_store(LOGIN_NODE)
    with pytest.raises(LinkDown, match="no link"):
        asked(LinkDown("no link"))
    with pytest.raises(Unreachable, match="systemctl start nimo-relay"):
        asked(Unreachable("nimod at /run/nimo/nimod.sock: No such file or directory"))


def test_on_a_login_node_what_hangs_is_named_and_is_no_case_for_starting_the_relay():
    with pytest.raises(LinkDown, match=r"nimod on ctl1 or the relay here hangs; see 'nimo doctor'"):
        asked(Unanswered("nimod at /run/nimo/nimod.sock does not answer within 2 s"))


def test_a_store_that_is_named_is_read():
    assert nimod_or_store(lambda: LOGIN_NODE, unread, lambda _: "read", store_named=True) == "read"


@pytest.mark.parametrize(
    ("config", "fix"),
    [(LOGIN_NODE, "systemctl start nimo-relay"), (Config(), "systemctl status nimod")],
)
def test_what_only_nimod_knows_says_what_to_start(config, fix):
    def ask():
        raise Unreachable("nimod at /run/nimo/nimod.sock: No such file or directory")

    with pytest.raises(Unreachable, match=fix):
        nimod_or_store(lambda: config, ask)


@pytest.mark.parametrize("command", ["predict", "advise"])
def test_users_who_cannot_read_the_store_are_not_shown_where_it_is(
    command, monkeypatch, tmp_path, capsys
):
    folder = tmp_path / "closed"
    config = tmp_path / "nimo.yaml"
    config.write_text(f"store: sqlite:///{folder}/nimo.db\nsocket: {tmp_path}/none.sock\n")
    monkeypatch.setenv("NIMO_CONFIG", str(config))
    monkeypatch.setattr("os.geteuid", lambda: 4711)
    words = {"predict": ["predict", "wrf"], "advise": ["--wrap=hostname"]}[command]
    run = nimo.main if command == "predict" else advise.main
    assert run(words) == 69
    said = capsys.readouterr().err
    assert said.endswith("; ask your site's admins whether nimod runs\n")
    assert "closed" not in said


def test_a_command_that_needs_the_store_names_the_host_that_has_one(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    with pytest.raises(StoreError, match=r"no store: run this on ctl1, or name a store") as caught:
        open_store(LOGIN_NODE)
    assert caught.value.exit_status == 74
    open_store(LOGIN_NODE, create=True).close()  # one's own
    open_store(LOGIN_NODE).close()


@pytest.mark.parametrize(
    ("words", "own", "sbatch"),
    [
        ("job.sh", "", "job.sh"),
        ("--all -N 4 job.sh a --all", "--all", "-N 4 job.sh a --all"),
        ("-N 4 --json job.sh", "--json", "-N 4 job.sh"),
        ("--store a.db --user ada job.sh", "--store a.db --user ada", "job.sh"),
        ("-o --json --json job.sh", "--json", "-o --json job.sh"),
        ("-vN 4 --json job.sh", "--json", "-vN 4 job.sh"),
        ("-N4 --json job.sh", "--json", "-N4 job.sh"),
        ("--exclusive --json job.sh", "--json", "--exclusive job.sh"),
        ("--json - x", "--json", "- x"),
        ("--json -- job.sh", "--json", "-- job.sh"),
        ("--nodes=4 --json", "--json", "--nodes=4"),
        ("--plot job.sh", "--plot", "job.sh"),
        ("--plot a.svg job.sh", "--plot a.svg", "job.sh"),
        ("--plot=a.svg job.sh b.png", "--plot=a.svg", "job.sh b.png"),
        ("--plot -N 4 job.sh", "--plot", "-N 4 job.sh"),
    ],
)
def test_our_options_are_distinguished_from_those_of_sbatch(words, own, sbatch):
    assert advise.split_arguments(words.split()) == (own.split(), sbatch.split())


_options = st.lists(
    st.sampled_from([["-N", "4"], ["--time=5"], ["--exclusive"], ["-vQ"], ["-J", "--all"]])
)


@given(_options, st.lists(st.sampled_from(["x", "--json", "-N"])))
def test_sbatchs_command_line_is_never_changed(options, arguments):
    line = [word for option in options for word in option] + ["job.sh", *arguments]
    assert advise.split_arguments(["--json", *line]) == (["--json"], line)
