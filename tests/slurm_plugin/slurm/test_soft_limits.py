"""Limits to plan with are taken back as soon as Slurm no longer says that they are."""

from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from sacct_ingest.errors import SlurmError
from sacct_ingest.text.admin_comment import Note
from sacct_ingest.text.admin_comment import build as note_text
from slurm_plugin.slurm.cluster_state import RawJob, RawNode, RawReservation, RawState
from slurm_plugin.slurm.limit_guard import LimitGuard
from slurm_plugin.slurm.poller import ClusterPoller
from slurm_plugin.slurm.slurm_conf import may_update, read_settings
from slurm_plugin.slurm.snapshot import build
from slurm_plugin.slurm.soft_limits import soft_jobs, take_back
from tests.slurm_plugin.slurm.test_operator_updates import ids_of

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


def record(job_id, least=5, limit=60, *, state="PENDING", tasks="", note=NOTE, **fields):
    """Record of a job; minutes."""
    return RawJob(
        state=state,
        job_id=100 + job_id if tasks else job_id,
        array_id=job_id if tasks else None,
        tasks=tasks,
        least_s=60.0 * least or None,
        limit_s=60.0 * limit,
        admin_comment=note,
        **{"partitions": ("batch",), "user": "ada"} | fields,
    )


def running(*args, **fields):
    return record(*args, state="RUNNING", **fields)


def own_id(job):
    return job.array_id or job.job_id


class Slurm:
    """Slurm's commands as far as limits to plan with go: jobs, and updates of them."""

    def __init__(self, *jobs):
        self.jobs, self.updates = list(jobs), []
        self.refuses = self.deaf = False

    def __call__(self, argv):
        if argv[0] == "squeue":
            jobs = self.jobs if "-r" in argv else self.view()
            return "".join(f"{line}\n" for line in map(self.line, jobs))
        assert argv[:2] == ("scontrol", "update")
        ids, change = argv[2:]
        self.updates.append((ids, change))
        if self.refuses:
            raise SlurmError("Invalid job id")
        name, _, value = change.partition("=")
        if not self.deaf:
            for job_id, task in ids_of(ids.partition("=")[2]):
                self.change(job_id, task, name, int(value))
        return ""

    def change(self, job_id, task, name, minutes):
        field = {"timemin": "least_s", "timelimit": "limit_s"}[name]
        for at, job in enumerate(self.jobs):
            if (own_id(job), job.tasks) == (job_id, task):
                self.jobs[at] = replace(job, **{field: 60.0 * minutes or None})

    def view(self):
        """Jobs as squeue shows them without ``-r``: tasks that wait stand in one line."""
        shown, lines = [], {}
        for job in self.jobs:
            if job.state != "PENDING" or not job.tasks:
                shown.append(job)
            elif job.array_id not in lines:
                lines[job.array_id] = len(shown)
                shown.append(job)
            else:
                at = lines[job.array_id]
                shown[at] = replace(shown[at], tasks=f"{shown[at].tasks},{job.tasks}")
        return shown

    @staticmethod
    def line(job):
        name = f"{own_id(job)}_{job.tasks}" if job.tasks else f"{job.job_id}"
        least, limit = (f"{round((s or 0) / 60)}:00" for s in (job.least_s, job.limit_s))
        fields = (name, job.state, least, limit, job.user, "batch", job.admin_comment)
        return "".join(f"{text}\x1f" for text in fields)


PLANS = read_settings(SOFT)
CUTS = read_settings(SOFT.replace("_soft_", "_"))
#: Release that cuts to the least limit exactly.
OLD_CUTS = read_settings("SLURM_VERSION = 24.11.5\n")


def looked(guard, slurm, conf=PLANS, *, off=False, reservations=()):
    """Let the guard look at what Slurm has now."""
    nodes = [RawNode(name="n1", state=frozenset(), partitions=("batch",))]
    state = RawState(nodes=nodes, jobs=slurm.view(), reservations=reservations)
    guard.look(slurm, state, conf, off=off, now_s=0.0)


MIXED = (
    *(record(4, tasks=str(task)) for task in (1, 2)),
    record(4, least=7, tasks="3"),  # its user has changed it
    record(7),
    record(8, least=0),  # done already
    record(9, note=""),  # its user's own
    record(10, least=12),  # its user has changed it
    running(4, tasks="12"),
    running(11, limit=6),
    running(12, limit=6, note=""),
)


def test_waiting_jobs_lose_what_nimo_wrote_in_one_command_and_running_ones_stay():
    slurm = Slurm(*MIXED)
    assert take_back(slurm) == ["timemin=0: 4_[1,2], 7"]
    assert slurm.updates == [("jobid=4_[1,2],7", "timemin=0")]
    assert [job.job for job in soft_jobs(slurm) if job.is_planned] == []
    assert [job.job for job in soft_jobs(slurm) if job.is_shorter] == ["11"]


@pytest.mark.parametrize(
    ("conf", "off", "note", "updates"),
    [(CUTS, False, NOTE, 2), (PLANS, True, NOTE, 2), (PLANS, False, NOTE, 0), (CUTS, False, "", 0)],
)
def test_each_view_without_the_option_looks_again(conf, off, note, updates):
    slurm, guard = Slurm(record(7, note=note)), LimitGuard()
    slurm.deaf = True
    for _ in range(2):
        looked(guard, slurm, conf, off=off)
    assert slurm.updates == [("jobid=7", "timemin=0")] * updates


def started(limit, least=5, **fields):
    """Job that waited, and now runs with this limit."""
    return replace(running(11, least, limit), **fields)


@pytest.mark.parametrize(
    ("confs", "job", "back"),
    [
        ((PLANS, CUTS, CUTS), started(6), True),
        ((CUTS, CUTS, PLANS), started(6), True),
        ((PLANS, PLANS, CUTS), started(6), False),  # it was there until then
        ((PLANS, PLANS, PLANS), started(6), False),  # Slurm cuts none
        ((PLANS, CUTS, CUTS), started(6, least=0), False),  # its user took the plan away
        ((PLANS, OLD_CUTS, OLD_CUTS), started(6), False),
        ((PLANS, OLD_CUTS, OLD_CUTS), started(5), True),
        ((PLANS, CUTS, CUTS), started(60), False),
    ],
)
def test_a_running_job_gets_its_users_limit_back_where_backfill_has_cut_it(confs, job, back):
    slurm, guard = Slurm(record(11)), LimitGuard()
    slurm.deaf = True
    looked(guard, slurm, confs[0])
    slurm.jobs, slurm.deaf, slurm.updates = [job], False, []
    for conf in (*confs[1:], *[confs[-1]] * 3):
        looked(guard, slurm, conf)
    assert slurm.updates == [("jobid=11", "timelimit=60")] * back
    assert slurm.jobs[0].limit_s == (3600.0 if back else job.limit_s)
    slurm.jobs = [job]  # whatever it was, its user makes it shorter again
    looked(guard, slurm, confs[-1])
    assert len(slurm.updates) == back


def test_what_its_user_shortened_while_it_waited_is_not_made_longer():
    slurm, guard = Slurm(record(11)), LimitGuard()
    looked(guard, slurm)
    slurm.jobs = [record(11, limit=20)]
    looked(guard, slurm)
    slurm.jobs = [started(20)]
    for conf in (CUTS, CUTS, PLANS):
        looked(guard, slurm, conf)
    assert slurm.updates == []


def test_of_a_job_that_was_not_seen_to_wait_nothing_is_known():
    slurm, guard = Slurm(started(6)), LimitGuard()
    for conf in (CUTS, PLANS, CUTS):
        looked(guard, slurm, conf)
    assert slurm.updates == []


@pytest.mark.parametrize(
    ("reservation", "job", "goes"),
    [
        ({"start_s": 3600.0 + 59.0}, {}, True),
        ({"start_s": 3600.0 + 60.0}, {}, False),
        ({"start_s": 1260.0}, {"limit": 20}, False),  # its user wants less
        ({"start_s": 0.0}, {}, False),  # nothing starts there
        ({"start_s": 600.0, "node_names": ("n9",)}, {}, False),
        ({"start_s": 600.0, "node_names": ()}, {}, False),
        ({"start_s": 600.0, "node_names": ()}, {"licences": {"solver": 1}}, True),
        ({"start_s": 9e9}, {"reservation": "own"}, True),
        ({"start_s": 600.0}, {"least": 0}, False),
    ],
)
def test_a_job_that_may_meet_a_reservation_waits_without_a_plan(reservation, job, goes):
    fields = {"name": "maint", "end_s": 9e9, "node_names": ("n1",)} | reservation
    slurm = Slurm(record(7, **job))
    looked(LimitGuard(), slurm, reservations=[RawReservation(**fields)])
    assert slurm.updates == [("jobid=7", "timemin=0")] * goes


def test_slurm_that_does_not_answer_is_asked_again():
    slurm, guard = Slurm(record(7)), LimitGuard()
    slurm.refuses = True
    looked(guard, slurm, CUTS)
    slurm.refuses = False
    looked(guard, slurm, CUTS)
    assert [job.least_s for job in slurm.jobs] == [None]


class UsersLastWord(RuleBasedStateMachine):
    """Users, backfill, admins and nimod in any order: nobody's last word is undone.

    Users change jobs and tasks that wait and that run; jobs start, are cut, are requeued; the
    option and the kill switch come and go, a reservation draws near, nimod starts anew.
    """

    def __init__(self):
        super().__init__()
        tasks = [record(4, tasks=str(task)) for task in (1, 2, 3)]
        self.slurm, self.guard = Slurm(record(1), record(2), *tasks), LimitGuard()
        self.conf, self.off, self.reserved = PLANS, False, False
        self.said = {}  # users' last words: of limits and of least limits
        self.fresh = set()  # whose users have said something since nimod last looked
        self.known = set()  # whose least limits nimod has seen with another value
        self.cut = set()  # what backfill has cut and nobody has touched since
        self.looks()

    jobs = st.integers(0, 4)

    def pick(self, number, *states):
        found = [job for job in self.slurm.jobs if job.state in states]
        return found[number % len(found)] if found else None

    def key(self, job):
        return own_id(job), job.tasks

    def put(self, job, **fields):
        self.slurm.jobs[self.slurm.jobs.index(job)] = replace(job, **fields)

    @rule(number=jobs, minutes=st.sampled_from([5, 6, 20, 60]))
    def a_user_says_a_limit(self, number, minutes):
        job = self.pick(number, "PENDING", "RUNNING")
        if job is None or 60.0 * minutes < (job.least_s or 0.0):
            return
        if job.state == "RUNNING" and 60.0 * minutes > job.limit_s:
            return  # users may not
        self.put(job, limit_s=60.0 * minutes)
        self.said[*self.key(job), "limit"] = 60.0 * minutes
        self.cut.discard(self.key(job))
        self.fresh.add(self.key(job))

    @rule(number=jobs, minutes=st.sampled_from([0, 5, 6]))
    def a_user_says_a_least_limit(self, number, minutes):
        job = self.pick(number, "PENDING")
        if job is None or 60.0 * minutes > job.limit_s:
            return
        self.put(job, least_s=60.0 * minutes or None)
        self.said[*self.key(job), "least"] = 60.0 * minutes or None
        self.fresh.add(self.key(job))

    @rule(number=jobs, part=st.floats(0.0, 1.0))
    def a_job_starts(self, number, part):
        job = self.pick(number, "PENDING")
        if job is None:
            return
        cuts = not self.conf.plans_softly and job.least_s
        if cuts and self.key(job) in self.fresh:
            return  # between two looks a user and backfill look alike
        limit_s = job.limit_s
        if cuts:
            limit_s = job.least_s + 60.0 * round(part * (job.limit_s - job.least_s) / 60.0)
            self.cut.add(self.key(job))
        self.put(job, state="RUNNING", limit_s=limit_s)

    @rule(number=jobs, minutes=st.sampled_from([6, 20]))
    def a_user_shortens_a_job_and_it_starts(self, number, minutes):
        job = self.pick(number, "PENDING")
        if job and self.conf.plans_softly and (job.least_s or 0.0) <= 60.0 * minutes:
            self.put(job, state="RUNNING", limit_s=60.0 * minutes)
            self.said[*self.key(job), "limit"] = 60.0 * minutes

    @rule(number=jobs)
    def a_job_is_requeued(self, number):
        job = self.pick(number, "RUNNING")
        if job:
            self.put(job, state="PENDING")

    @rule()
    def an_admin_changes_the_option(self):
        # What users and backfill do between the same two looks nobody can tell apart.
        self.looks()
        self.conf = CUTS if self.conf is PLANS else PLANS
        self.looks()

    @rule()
    def an_admin_switches_nimo(self):
        self.off = not self.off

    @rule()
    def a_reservation_comes_or_goes(self):
        self.reserved = not self.reserved

    @rule()
    def nimod_starts_anew(self):
        self.guard = LimitGuard()
        self.known.clear()
        self.looks()

    @rule()
    def an_admin_restores(self):
        before = {self.key(job): job for job in self.slurm.jobs}
        take_back(self.slurm)
        for job in self.slurm.jobs:
            was = before[self.key(job)]
            assert job.limit_s == was.limit_s
            if job.least_s != was.least_s:
                assert (was.least_s, was.state) == (300.0, "PENDING")
                assert self.said.pop((*self.key(job), "least"), 300.0) == 300.0

    @rule(deaf=st.booleans())
    def looks(self, deaf=False):
        self.slurm.deaf = deaf
        # Of tasks that wait the view shows the first alone.
        alone = [job for job in self.slurm.view() if "," not in job.tasks]
        self.known |= {self.key(job) for job in alone if job.least_s != 300.0}
        before = {self.key(job): job for job in self.slurm.jobs}
        maint = {"name": "maint", "start_s": 600.0, "end_s": 9e9, "node_names": ("n1",)}
        reservations = [RawReservation(**maint)] * self.reserved
        looked(self.guard, self.slurm, self.conf, off=self.off, reservations=reservations)
        for job in self.slurm.jobs:
            self.check(self.key(job), before[self.key(job)], job)
        self.slurm.deaf = False
        self.fresh.clear()

    def check(self, key, before, after):
        if after.least_s != before.least_s:
            # It was what NIMO wrote, and nobody was seen to have changed it.
            assert (before.least_s, after.least_s, before.state) == (300.0, None, "PENDING")
            assert key not in self.known and self.said.get((*key, "least"), 300.0) == 300.0
            self.known.add(key)
        if after.limit_s != before.limit_s:
            assert key in self.cut and before.state == "RUNNING"
            assert after.limit_s == 3600.0 == self.said.get((*key, "limit"), 3600.0)
            self.cut.discard(key)

    @rule()
    def looks_until_all_is_done(self):
        for _ in range(3):
            self.looks()
        for job in self.slurm.jobs:
            meets = self.reserved and job.limit_s + 60.0 > 600.0
            unsafe = self.off or meets or not self.conf.plans_softly
            if job.state == "PENDING" and job.least_s == 300.0 and unsafe:
                assert (*self.key(job), "least") in self.said  # its user wants that


TestUsersLastWord = UsersLastWord.TestCase
TestUsersLastWord.settings = settings(max_examples=200, stateful_step_count=30, deadline=None)


def test_the_kill_switch_takes_them_back_from_jobs_that_wait(tmp_path, monkeypatch):
    asked, poller = [], ClusterPoller(lambda: 1e9, kill_switch=f"{tmp_path}/off", run=no_slurm)
    settings = replace(read_settings(SOFT), may_update=True)
    monkeypatch.setattr(poller, "_ask_settings", lambda: settings)
    monkeypatch.setattr(poller, "_ask", lambda _: RawState())
    monkeypatch.setattr(LimitGuard, "look", lambda *_, off, now_s: asked.append(off))
    poller.look()
    (tmp_path / "off").touch()
    poller.look()
    assert asked == [False, True]


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
