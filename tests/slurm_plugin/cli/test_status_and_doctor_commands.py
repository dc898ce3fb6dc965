import json
from collections.abc import Callable

import pytest

from slurm_plugin.cli.commands import doctor
from slurm_plugin.cli.commands.status import describe
from slurm_plugin.cli.nimo import main
from slurm_plugin.doctor import Finding, FindingState
from slurm_plugin.protocol.status_messages import Counts, Status
from slurm_plugin.text.table_columns import WIDTH


def test_nimod_tells_how_it_is(nimod, capsys):
    assert main(["status", "--config", str(nimod.config), "--json"]) == 0
    status = json.loads(capsys.readouterr().out)
    assert status["identities"] > 7
    assert status["snapshot_age_s"] < 60
    assert status["counts"]["began_s"] > 0
    assert len(status["counts"]["bins"]) == len(status["counts"]["bounds_s"]) + 1
    assert main(["status", "--config", str(nimod.config)]) == 0
    text = capsys.readouterr().out
    assert "cluster    read " in text
    lines = text.splitlines()
    assert max(map(len, lines)) <= WIDTH
    folded = [line for line in lines if not line[:1].isalpha()]
    assert folded
    assert all(line.startswith(" " * 11) for line in folded)


def test_no_nimod_is_one_line(tmp_path, capsys):
    config = tmp_path / "nimo.yaml"
    config.write_text(f"socket: {tmp_path}/none.sock\n")
    assert main(["status", "--config", str(config)]) == 69
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"nimo: nimod at {tmp_path}/none.sock: ")
    assert "systemctl status nimod" in err


@pytest.mark.parametrize(
    ("age_s", "words"),
    [(None, "not read yet"), (12.0, "read 12 s ago"), (61.0, "read 61 s ago: too old")],
)
def test_what_nimod_sees_of_the_cluster(age_s, words):
    text = describe(Status(snapshot_age_s=age_s), now_s=0, max_age_s=60)
    assert f"cluster    {words}" in text
    assert ("pass unchanged" in text) is (age_s != 12.0)


def test_before_the_first_look_at_the_store_there_are_no_tables():
    assert "tables     none yet" in describe(Status(), now_s=0, max_age_s=60)


@pytest.mark.parametrize(
    ("bins", "words"),
    [
        ([0, 0, 0], "none to submissions yet"),
        ([99, 1, 0], "to 100 submissions: half within 0.5 ms, 99 % within 0.5 ms"),
        ([1, 1, 0], "to 2 submissions: half within 0.5 ms, 99 % within 20 ms"),
        ([0, 0, 1], "to 1 submission: half in more than 20 ms, 99 % in more than 20 ms"),
    ],
)
def test_how_long_answers_take(bins, words):
    counts = Counts(bounds_s=[0.0005, 0.02], bins=bins)
    assert f"answers    {words}\n" in describe(Status(counts=counts), now_s=0, max_age_s=60)


LONG = Finding(
    check="hook files",
    state=FindingState.ERROR,
    message="missing in /etc/slurm: cli_filter.lua, job_submit.lua, nimo.lua, nimo_json.lua",
    fix="nimo hook-path --install /etc/slurm, and then restart slurmctld with systemctl",
)


@pytest.fixture
def printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[[Finding, int], list[str]]:
    """Rows that `nimo doctor` prints of a finding in so many columns."""

    def rows(finding: Finding, width: int) -> list[str]:
        monkeypatch.setattr(doctor, "installation_of", lambda _: None)
        monkeypatch.setattr(doctor, "examine", lambda _, **__: [finding])
        monkeypatch.setattr(doctor, "terminal_width", lambda: width)
        assert main(["doctor"]) == int(finding.state is FindingState.ERROR)
        return capsys.readouterr().out.splitlines()

    return rows


def test_findings_fold_at_the_width_of_the_terminal(printed):
    rows = printed(LONG, 80)
    assert rows[0].startswith("error    hook files     missing in /etc/slurm: ")
    assert len(rows) > 2
    assert max(map(len, rows)) <= 80
    assert all(row.startswith(" " * 24) for row in rows[1:])


def test_paths_stay_whole_in_a_narrow_terminal(printed):
    path = "/srv/" + "long-name/" * 9
    rows = printed(Finding(check="store", state=FindingState.OK, message=path), 40)
    assert rows[-1].split()[-1] == path
