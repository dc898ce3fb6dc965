"""Limits to plan with are taken back as soon as Slurm no longer says that they are."""

from dataclasses import replace

import pytest

from sacct_ingest.errors import SlurmError
from sacct_ingest.text.admin_comment import Note
from sacct_ingest.text.admin_comment import build as note_text
from slurm_plugin.slurm.cluster_state import RawJob, RawState
from slurm_plugin.slurm.poller import ClusterPoller
from slurm_plugin.slurm.slurm_conf import may_update, read_settings
from slurm_plugin.slurm.snapshot import build
from slurm_plugin.slurm.soft_limits import LimitGuard, QueueHeads, take_back

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
NOTE = note_text(_NOTE)
SOFT = "SLURM_VERSION = 26.05.5\nSchedulerParameters = time_min_as_soft_limit\n"


def no_slurm(argv, *, timeout_s):
    raise SlurmError(f"{argv[0]}: not here")


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
    slurm, jobs = Slurm(), [RawJob(state="PENDING", admin_comment=note)]
    guard = LimitGuard()
    for _ in range(2):
        guard.look(slurm, jobs, safe=safe)
    assert len(slurm.updates) == updates


def test_a_job_that_was_cut_while_nobody_looked_gets_its_users_limit_back():
    cut = RawJob(state="RUNNING", job_id=11, limit_s=360.0, admin_comment=NOTE)
    whole, slurm, guard = replace(cut, limit_s=3600.0), Slurm(), LimitGuard()
    for job in (whole, replace(cut, state="PENDING"), cut):
        guard.look(slurm, [job], safe=True)
    assert slurm.updates == [("jobid=11", "timelimit=60")]
    for job in (cut, whole, cut, cut):  # it has it, and then its user makes it shorter
        guard.look(slurm, [job], safe=True)
    assert len(slurm.updates) == 2


def test_the_kill_switch_takes_them_back_from_jobs_that_wait(tmp_path, monkeypatch):
    asked, poller = [], ClusterPoller(lambda: 1e9, kill_switch=f"{tmp_path}/off", run=no_slurm)
    settings = replace(read_settings(SOFT), may_update=True)
    monkeypatch.setattr(poller, "_ask_settings", lambda: settings)
    monkeypatch.setattr(poller, "_ask", lambda _: RawState())
    monkeypatch.setattr(LimitGuard, "look", lambda *_, safe: asked.append(safe))
    poller.look()
    (tmp_path / "off").touch()
    poller.look()
    assert asked == [True, False]


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


def head(start_s, job_id=1, note=NOTE, **fields):
    given = {"state": "PENDING", "partitions": ("batch",), "priority": 9, "reason": "Resources"}
    given |= {"job_id": job_id, "start_s": start_s, "admin_comment": note}
    return RawJob(**given | fields)


@pytest.mark.parametrize(
    ("later", "rests"),
    [
        (head(1009.0), False),  # by its predicted run time, and no more
        (head(1010.0), True),
        (head(1010.0, job_id=2), False),
        (head(1010.0, reason="Dependency"), False),
        (head(1010.0, note="", limit_s=9.0), False),  # nothing there is planned softly
    ],
)
def test_a_partition_rests_for_a_day_where_the_first_of_its_queue_is_put_off(later, rests):
    heads, behind = QueueHeads(), head(50.0, job_id=7, note="", priority=8)
    assert heads.look([behind, head(1000.0, note=later.admin_comment)], 0.0) == frozenset()
    assert heads.look([later, head(9000.0, job_id=9, note="", priority=1)], 20.0) == (
        {"batch"} if rests else frozenset()
    )
    assert heads.look([], 86_400.0) == ({"batch"} if rests else frozenset())
    assert heads.look([], 86_420.0) == frozenset()


@pytest.mark.parametrize(
    ("uid", "level", "may"),
    [(0, "None", True), (64030, "None", True), (1, "Operator", True), (1, "None", False)],
)
def test_only_who_can_take_a_limit_back_sets_one(monkeypatch, uid, level, may):
    monkeypatch.setattr("os.geteuid", lambda: uid)
    assert may_update(64030, lambda _: f"{level}|\n") is may
    settings = replace(read_settings(SOFT), may_update=may)
    seen = build(RawState(), settings, cluster="pine", taken_s=0.0)
    assert seen.plans_softly is may
