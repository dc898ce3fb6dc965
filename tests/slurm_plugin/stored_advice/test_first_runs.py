"""What `nimo-advise` prints of a command that never ran: a guess from other jobs, or nothing."""

import random

import pytest

from sacct_ingest.store import RecordRow, Store
from sacct_ingest.store.fits import NEIGHBOURS
from tests.slurm_plugin.stored_advice.walk import Ran, advised, fitted, rows

ASKED = ("-N", "2", "-t", "60", "-p", "batch", "-J", "new", "app.sh")


def jobs(user, count, median_s, *, seed=1):
    """Jobs of a user, each of another command."""
    rng = random.Random(f"{user}{seed}")
    return [
        Ran(
            seconds=round(median_s * rng.lognormvariate(0, 0.3)),
            line=f"sbatch -N 2 -t 60 {user}{number}.sh",
            user=user,
            name=f"{user}{number}",
            nodes=2,
            limit="01:00:00",
        )
        for number in range(count)
    ]


def site(folder, ran, permission="site"):
    fitted(folder, ran)
    (folder / "nimo.yaml").write_text(
        f"store: sqlite:///{folder}/s.db\nsharing: {{first_runs: {permission}}}\n"
    )
    return folder


def said(folder, *more, user="ada"):
    script, options = ASKED[-1], ASKED[:-1]
    return advised(folder, "--config=nimo.yaml", f"--user={user}", *options, *more, script)


OTHERS = [*jobs("bob", 6, 600), *jobs("zoe", 6, 700), *jobs("kim", 6, 500)]

NOTHING = """\
NIMO has no finished run of this job yet.

It predicts jobs that ran before: submit it, or let 'nimo scale' try several
counts.
"""


def test_without_permission_others_jobs_say_nothing(tmp_path):
    assert said(site(tmp_path, OTHERS, "own")) == NOTHING
    (tmp_path / "nimo.yaml").write_text(f"store: sqlite:///{tmp_path}/s.db\n")
    assert said(tmp_path) == NOTHING  # so it is where the site says nothing


def test_with_permission_others_jobs_make_a_guess_without_names(tmp_path):
    printed = said(site(tmp_path, OTHERS))
    assert printed == WITH_OTHERS
    for name in ("bob", "zoe", "kim"):
        assert name not in said(tmp_path, "-v")


WITH_OTHERS = """\
About 9.1 min on 2 nodes (9 of 10 runs: 4.3 min to 1 h); low confidence: based
on jobs of 3 other users, not on this application.

Its time limit of 1 h may be short: some such jobs take all of it.
"""


def test_own_jobs_make_a_guess_whatever_the_site_allows(tmp_path):
    printed = said(site(tmp_path, [*jobs("ada", 12, 300), *OTHERS], "own"))
    assert printed == WITH_OWN
    row = rows(tmp_path, "--config=nimo.yaml", *ASKED)[2]
    assert row["low_s"] < 300 < row["high_s"]


WITH_OWN = """\
About 5 min on 2 nodes (9 of 10 runs: 2.9 to 7.8 min); low confidence: based on
12 of your other jobs, not on this application.

Keep its time limit of 1 h for the first run: its runs will say which is enough.
"""


def test_a_range_is_guessed_on_its_most_nodes_in_one_row(tmp_path):
    wide = Ran(seconds=60, line="sbatch -N 8 -t 60 wide.sh", user="bob", name="wide", nodes=8)
    folder = site(tmp_path, [*jobs("ada", 12, 300), wide], "own")
    printed = said(folder, "-v", "-N", "1-8")
    assert printed.startswith("About 5 min on 8 nodes (9 of 10 runs: 2.9 to 8.6 min); low")
    assert list(rows(folder, "--config=nimo.yaml", "-N", "1-8", "-t", "60", "app.sh")) == [8]


def test_a_first_run_hears_whether_its_limit_leaves_room_and_how_its_size_is_learnt(tmp_path):
    folder = site(tmp_path, jobs("ada", 12, 300), "own")
    roomy = " ".join(said(folder, "-N", "1-8").split())
    assert "Keep its time limit of 1 h for the first run" in roomy
    assert "No run shows yet what is best of 1 to 8 nodes: 'nimo scale' tries several" in roomy
    short = " ".join(said(folder, "-N", "2", "-t", "4").split())
    assert "Its time limit of 4 min may be short: some such jobs take all of it." in short
    assert "what is best of" not in short


def test_two_other_users_are_too_few(tmp_path):
    assert said(site(tmp_path, [*jobs("bob", 20, 600), *jobs("zoe", 20, 600)])) == NOTHING


@pytest.mark.parametrize("permission", ["own", "site"])
def test_a_guess_is_nothing_to_paste(tmp_path, permission):
    folder = site(tmp_path, [*jobs("ada", 12, 300), *OTHERS], permission)
    assert "#SBATCH" not in said(folder, "-v")
    assert "#SBATCH" not in said(folder, "--deadline=now+2hours")


def test_a_command_that_ran_is_told_its_own_run_time(tmp_path):
    own = [Ran(seconds=120, line="sbatch -N 2 -t 60 app.sh", name="new", nodes=2)] * 3
    folder = site(tmp_path, [*OTHERS, *own])
    assert "ow confidence" not in said(folder)
    assert rows(folder, "--config=nimo.yaml", *ASKED)[2]["time_s"] == pytest.approx(120, rel=0.01)


def test_a_damaged_past_says_nothing(tmp_path):
    folder = site(tmp_path, OTHERS)
    level, key = NEIGHBOURS
    with Store.open(f"sqlite:///{folder}/s.db") as store:
        store.records.put(RecordRow(level=level, key=key, payload='{"jobs": [1]}'))
    assert said(folder) == NOTHING
