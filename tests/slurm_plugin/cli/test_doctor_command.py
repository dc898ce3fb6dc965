"""How `nimo doctor` lays out what it found."""

from slurm_plugin.cli.commands.doctor import _lines
from slurm_plugin.doctor import Finding, FindingState

LONG = Finding(
    check="hook files",
    state=FindingState.ERROR,
    message="missing in /etc/slurm: cli_filter.lua, job_submit.lua, nimo.lua, nimo_json.lua",
    fix="nimo hook-path --install /etc/slurm, and then restart slurmctld with systemctl",
)


def test_findings_fold_at_the_width_of_the_terminal() -> None:
    rows = _lines(LONG, 80, colour=False).splitlines()
    assert rows[0].startswith("error    hook files     missing in /etc/slurm: ")
    assert len(rows) > 2
    assert max(map(len, rows)) <= 80
    assert all(row.startswith(" " * 24) for row in rows[1:])


def test_paths_stay_whole_in_a_narrow_terminal() -> None:
    path = "/srv/" + "long-name/" * 9
    rows = _lines(
        Finding(check="store", state=FindingState.OK, message=path), 40, colour=False
    ).splitlines()
    assert rows[-1].split()[-1] == path
