"""How `nimo doctor` lays out its findings."""

from collections.abc import Callable

import pytest

from slurm_plugin.cli.commands import doctor
from slurm_plugin.cli.nimo import main
from slurm_plugin.doctor import Finding, FindingState

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
