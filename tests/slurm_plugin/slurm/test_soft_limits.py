"""Limits to plan with are taken back as soon as Slurm no longer says that they are."""

import pytest

from sacct_ingest.errors import SlurmError
from sacct_ingest.text.admin_comment import Note, build
from slurm_plugin.slurm.raw_state import RawJob
from slurm_plugin.slurm.slurm_conf import read_settings
from slurm_plugin.slurm.soft_limits import Guard, take_back

_NOTE = Note(
    decision_id="3f9a0c12b7de",
    nodes=1,
    low=1,
    high=1,
    time_s=9,
    low_s=8,
    high_s=10,
    verdict="reliable",
    mode="enforce",
    reason="serial",
    soft_min=5,
    own_min=60,
)
NOTE = build(_NOTE)


def row(job, state, least, limit, note=NOTE):
    return "".join(f"{text}\x1f" for text in (job, state, least, limit, "ada", "batch", note))


QUEUE = (
    row("4_[1-9%2]", "PENDING", "5:00", "1:00:00"),
    row("7", "PENDING", "5:00", "1:00:00"),
    row("8", "PENDING", "0:00", "1:00:00"),  # done already
    row("9", "PENDING", "5:00", "1:00:00", note="(null)"),  # its user's own
    row("4_12", "RUNNING", "5:00", "1:00:00"),
    row("11", "RUNNING", "5:00", "6:00"),  # backfill has cut it
    row("12", "RUNNING", "5:00", "6:00", note="(null)"),
)


class Slurm:
    def __init__(self, refuse=False):
        self.refuse, self.updates = refuse, []

    def __call__(self, argv):
        if argv[0] == "squeue":
            return "\n".join(QUEUE) + "\n"
        self.updates.append(argv[2:])
        if self.refuse:
            raise SlurmError("Invalid job id")
        return ""


def test_waiting_jobs_lose_theirs_in_one_command_and_cut_ones_get_their_users_back():
    slurm = Slurm()
    lines = take_back(slurm)
    assert slurm.updates == [("jobid=4,7", "timemin=0"), ("jobid=11", "timelimit=60")]
    assert lines == ["timemin=0: 4, 7", "timelimit=60: 11"]


def test_a_refusal_does_not_end_it():
    slurm = Slurm(refuse=True)
    assert len(take_back(slurm)) == len(slurm.updates) == 2


@pytest.mark.parametrize(
    ("safe", "note", "updates"), [(False, NOTE, 4), (True, NOTE, 0), (False, "", 0)]
)
def test_each_view_without_the_option_looks_again(safe, note, updates):
    slurm = Slurm()
    guard, jobs = Guard(slurm), [RawJob(state="PENDING", admin_comment=note)]
    for _ in range(2):
        guard.look(jobs, safe=safe)
    assert len(slurm.updates) == updates


@pytest.mark.parametrize(
    ("release", "plans", "ends"),
    [
        *(("22.05.8", False, False), ("23.02.7", False, False), ("23.11.0", True, False)),
        *(("25.05.3", True, False), ("25.05.4", True, True), ("26.05.5", True, True)),
        ("unknown", False, False),
    ],
)
def test_release_and_option_say_whether_slurm_plans_so(release, plans, ends):
    words = "bf_interval=2,Time_Min_as_soft_limit"
    text = f"SLURM_VERSION = {release}\nSchedulerParameters = {words}\n"
    said = read_settings(text)
    assert (said.plans_softly, said.ends_softly) == (plans, ends)
    without = read_settings(text.replace("_limit", "_limits"))
    assert not without.plans_softly
