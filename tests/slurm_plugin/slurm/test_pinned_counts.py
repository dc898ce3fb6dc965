"""A job that does not start as planned on its one count gets its own range back."""

from math import inf

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from msgspec.structs import replace

from sacct_ingest.errors import SlurmError
from sacct_ingest.text.admin_comment import Note, build, parse
from slurm_plugin.slurm.cluster_state import RawJob
from slurm_plugin.slurm.pinned_counts import PinnedCounts, is_overdue, pinned_jobs

NOW = 1_000_000.0
NOTE = Note(
    decision_id="3f9a0c12b7de", nodes=4, low=1, high=8, time_s=300, low_s=290, high_s=310,
    verdict="reliable", mode="enforce", reason="cheapest", asked=2, asked_s=500,
    planned_s=int(NOW) + 600, latest_s=int(NOW) + 900,
)  # fmt: skip
OTHER_WORDS = "JS1:x"


class Slurm:
    """Jobs that wait or run, as slurmctld has them; it takes updates as a real one does."""

    def __init__(self, *job_ids, may_note=True):
        self.jobs = {
            job_id: {
                "state": "PENDING", "least": 4, "most": 4, "cpus": 8, "start_s": inf,
                "reason": "Priority", "note": f"{OTHER_WORDS} {build(NOTE)}",
            }
            for job_id in job_ids
        }  # fmt: skip
        self.may_note, self.updates, self.before_update = may_note, [], lambda: None

    def raw(self):
        return [
            RawJob(
                state=job["state"], job_id=job_id, nodes=job["least"], max_nodes=job["most"],
                reason=job["reason"], start_s=job["start_s"], admin_comment=job["note"],
                tres={"cpu": job["cpus"]},
            )
            for job_id, job in self.jobs.items()
        ]  # fmt: skip

    def run(self, argv):
        if argv[0] == "squeue":
            return self.squeue(set(map(int, argv[6].split(","))))
        _, _, jobs, change = argv
        if not change.startswith("admincomment="):
            self.before_update()
        self.updates.append((jobs, change))
        name, _, value = change.partition("=")
        for job_id in map(int, jobs.partition("=")[2].split(",")):
            self.update(self.jobs[job_id], name, value)
        return ""

    def update(self, job, name, value):
        if name == "admincomment":
            if not self.may_note:
                raise SlurmError("Access/permission denied for job 1")
            job["note"] = value
        elif job["state"] != "PENDING":
            raise SlurmError("Job is no longer pending execution")
        elif name == "numnodes":
            job["least"], job["most"] = map(int, value.split("-"))
        else:
            job["cpus"] = int(value)

    def squeue(self, job_ids):
        rows = [
            (str(job_id), job["state"], job["least"], job["most"], job["cpus"], 2, job["note"])
            for job_id, job in self.jobs.items()
            if job_id in job_ids and job["state"] == "PENDING"
        ]
        return "".join("".join(f"{word}\x1f" for word in row) + "\n" for row in rows)


def look(slurm, pins, at_s=NOW, *, off=False):
    pins.look(slurm.run, slurm.raw(), at_s, off=off)


@pytest.mark.parametrize(
    ("at_s", "fields", "overdue"),
    [
        (NOW, {}, False),
        (NOW + 660, {}, False),
        (NOW + 661, {}, True),
        (NOW + 661, {"reason": "JobHeldUser"}, False),  # it does not wait for nodes
        (NOW + 661, {"reason": "Dependency"}, False),
        (NOW, {"start_s": NOW + 1500}, False),
        (NOW, {"start_s": NOW + 1501}, True),
    ],
)
def test_a_planned_start_that_has_passed_or_comes_too_late_is_overdue(at_s, fields, overdue):
    job = RawJob(**{"state": "PENDING", "reason": "Resources"} | fields)
    assert is_overdue(job, NOTE, at_s) is overdue


def test_slurms_plan_is_by_limits_and_says_nothing_of_a_wait_that_is_predicted():
    job = RawJob(state="PENDING", reason="Resources", start_s=NOW + 7 * 86_400)
    assert not is_overdue(job, replace(NOTE, latest_s=None), NOW)


def test_the_range_comes_back_with_its_cpus_and_the_note_says_so():
    slurm, pins = Slurm(7), PinnedCounts()
    look(slurm, pins)
    assert slurm.updates == []
    look(slurm, pins, NOW + 700)
    job = slurm.jobs[7]
    assert (job["least"], job["most"], job["cpus"]) == (1, 8, 2)
    assert job["note"].split()[0] == OTHER_WORDS
    assert parse(job["note"]) == replace(NOTE, opened_s=int(NOW) + 700)
    done = len(slurm.updates)
    look(slurm, pins, NOW + 800)
    assert len(slurm.updates) == done == 3


def test_who_is_switched_off_gives_all_back_that_waits():
    slurm = Slurm(7, 8, 9)
    slurm.jobs[9]["state"] = "RUNNING"
    look(slurm, PinnedCounts(), off=True)
    assert [slurm.jobs[n]["most"] for n in (7, 8, 9)] == [8, 8, 4]


def test_a_job_that_its_user_changed_is_left_alone_for_good():
    slurm, pins = Slurm(7), PinnedCounts()
    slurm.jobs[7]["least"] = 2
    look(slurm, pins)
    slurm.jobs[7]["least"] = 4
    look(slurm, pins, NOW + 700)
    assert slurm.updates == []


def test_a_user_who_changes_it_meanwhile_has_the_last_word():
    slurm, pins = Slurm(7), PinnedCounts()
    raw = slurm.raw()
    slurm.jobs[7] |= {"least": 2, "most": 3}
    pins.look(slurm.run, raw, NOW + 700, off=False)
    assert slurm.updates == []


def test_a_job_that_starts_meanwhile_keeps_its_nodes_and_its_note():
    slurm = Slurm(7)
    slurm.before_update = lambda: slurm.jobs[7].update(state="RUNNING")
    look(slurm, PinnedCounts(), NOW + 700)
    assert (slurm.jobs[7]["least"], slurm.jobs[7]["most"]) == (4, 4)
    assert parse(slurm.jobs[7]["note"]) == NOTE


def test_an_operator_who_may_not_write_notes_gives_ranges_back_all_the_same():
    slurm, pins = Slurm(7, 8, may_note=False), PinnedCounts()
    look(slurm, pins, NOW + 700)
    assert [job["most"] for job in slurm.jobs.values()] == [8, 8]
    # It is told once that it may not.
    assert sum(change.startswith("admincomment") for _, change in slurm.updates) == 1


def test_what_others_write_into_the_comment_meanwhile_stays():
    slurm = Slurm(7)

    def run(argv):
        answer = slurm.run(argv)
        if argv[-1].startswith("numcpus"):
            slurm.jobs[7]["note"] = slurm.jobs[7]["note"].replace(OTHER_WORDS, "JS1:y TOOL:z")
        return answer

    PinnedCounts().look(run, slurm.raw(), NOW + 700, off=False)
    assert slurm.jobs[7]["note"].startswith("JS1:y TOOL:z NIMO1:")
    assert parse(slurm.jobs[7]["note"]).opened_s == int(NOW) + 700


def test_a_note_that_is_another_by_now_is_left_alone():
    slurm, words = Slurm(7), []

    def run(argv):
        if argv[0] == "squeue":
            words.append(slurm.jobs[7]["note"])
            if len(words) == 3:  # right before the note is written
                slurm.jobs[7]["note"] = build(replace(NOTE, decision_id="0" * 12))
        return slurm.run(argv)

    PinnedCounts().look(run, slurm.raw(), NOW + 700, off=False)
    assert len(words) == 3
    assert parse(slurm.jobs[7]["note"]) == replace(NOTE, decision_id="0" * 12)


def test_a_slurm_that_does_not_answer_ends_no_look():
    def run(argv):
        raise SlurmError(f"{argv[0]}: no answer")

    PinnedCounts().look(run, Slurm(7).raw(), NOW + 700, off=False)


def test_only_jobs_with_a_range_to_get_back_are_asked_for():
    slurm = Slurm(7, 8)
    slurm.jobs[8]["note"] = build(replace(NOTE, planned_s=None, latest_s=None))
    assert [one.job_id for one in pinned_jobs(slurm.run, [7, 8])] == [7]


class LastWord(RuleBasedStateMachine):
    """Users, Slurm, looks and time in any order."""

    def __init__(self):
        super().__init__()
        self.slurm, self.pins, self.now_s = Slurm(1, 2, 3), PinnedCounts(), NOW
        self.last: dict[int, tuple[int, int]] = {}  # users' last words
        self.started: dict[int, tuple[int, int]] = {}

    jobs = st.integers(1, 3)

    def bounds(self, job):
        return self.slurm.jobs[job]["least"], self.slurm.jobs[job]["most"]

    @rule(job=jobs, bounds=st.sampled_from([(1, 8), (2, 2), (1, 2), (3, 6)]))
    def user_updates(self, job, bounds):
        if self.slurm.jobs[job]["state"] == "PENDING":
            least, most = self.last[job] = bounds
            self.slurm.jobs[job] |= {"least": least, "most": most}

    @rule(job=jobs)
    def starts(self, job):
        self.slurm.jobs[job]["state"] = "RUNNING"
        self.started.setdefault(job, self.bounds(job))

    @rule(job=jobs, reason=st.sampled_from(["JobHeldUser", "Priority", "Resources"]))
    def waits(self, job, reason):
        self.slurm.jobs[job]["reason"] = reason

    @rule(seconds=st.sampled_from([20, 600]), off=st.booleans())
    def looks(self, seconds, off):
        self.now_s += seconds
        look(self.slurm, self.pins, self.now_s, off=off)

    @rule(job=jobs)
    def starts_before_the_update(self, job):
        self.slurm.before_update = lambda: self.starts(job)
        self.looks(600, off=True)
        self.slurm.before_update = lambda: None

    @rule()
    def nimod_begins_anew(self):
        self.pins = PinnedCounts()

    @invariant()
    def who_said_something_has_it_and_who_runs_keeps_its_nodes(self):
        for job in (1, 2, 3):
            assert self.bounds(job) == self.started.get(job, self.last.get(job, self.bounds(job)))
            assert self.bounds(job) in {(4, 4), (1, 8), self.last.get(job)}


TestLastWord = LastWord.TestCase
TestLastWord.settings = settings(max_examples=200, stateful_step_count=30, deadline=None)


def test_of_an_array_the_tasks_get_theirs_back_that_their_user_left_alone():
    updates = []

    def run(argv):
        if argv[0] == "squeue":
            assert "-r" in argv  # else all tasks that wait look like the first
            rows = (("4_1", 4, 4), ("4_2", 2, 2), ("4_3", 4, 4))
            words = ((name, "PENDING", low, high, 8, 2, build(NOTE)) for name, low, high in rows)
            return "".join("".join(f"{word}\x1f" for word in row) + "\n" for row in words)
        updates.append(argv[2:])
        return ""

    record = RawJob(
        state="PENDING", job_id=4, array_id=4, tasks="1-3", nodes=4, max_nodes=4,
        reason="Priority", admin_comment=build(NOTE),
    )  # fmt: skip
    PinnedCounts().look(run, [record], NOW, off=True)
    assert updates == [("jobid=4_[1,3]", "numnodes=1-8"), ("jobid=4_[1,3]", "numcpus=2")]
