"""As an operator NIMO takes back what it wrote itself; what anybody else wrote stays for good."""

import re
import tracemalloc

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from sacct_ingest.errors import SlurmError
from slurm_plugin.slurm.operator_updates import ClosedFields, OperatorUpdates, WrittenField

WRITTEN, OWN = "5", "0"


def field(job_id, value=WRITTEN, task="", name="timemin", own=OWN):
    return WrittenField(job_id=job_id, task=task, field=name, written=WRITTEN, own=own, value=value)


def ids_of(jobs):
    """Jobs and tasks that a list of ids names."""
    named = re.findall(r"(\d+)(?:_(?:\[([\d,]+)\]|(\d+)))?(?:,|$)", jobs)
    return {(int(job), task) for job, some, one in named for task in (some or one).split(",")}


class Slurm:
    """Takes updates; what it has is what it was told last."""

    def __init__(self, *fields):
        self.fields, self.updates, self.deaf, self.refuses = list(fields), [], False, False

    def read(self):
        return self.fields

    def run(self, argv):
        _, _, jobs, change = argv
        self.updates.append((jobs, change))
        if self.refuses:
            raise SlurmError("Invalid job id")
        if not self.deaf:
            name, _, value = change.partition("=")
            named = ids_of(jobs.partition("=")[2])
            self.fields = [
                field(one.job_id, value, one.task, one.field, one.own)
                if one.field == name and (one.job_id, one.task) in named
                else one
                for one in self.fields
            ]
        return ""


def give_back(updates, slurm):
    return list(updates.give_back(slurm.run, slurm.read))


def test_all_jobs_of_a_value_are_changed_in_one_command_and_no_task_beside_those_named():
    tasks = [field(4, task="1"), field(4, "60", task="2"), field(4, task="3"), field(5, task="1")]
    slurm = Slurm(*tasks, field(7), field(8, "60"), field(9, name="numnodes", own="1-8"))
    lines = give_back(OperatorUpdates(), slurm)
    assert lines == ["timemin=0: 4_[1,3], 5_1, 7", "numnodes=1-8: 9"]
    assert slurm.updates[0] == ("jobid=4_[1,3],5_1,7", "timemin=0")
    assert [one.value for one in slurm.fields] == [OWN, "60", OWN, OWN, OWN, "60", "1-8"]


def test_command_lines_stay_short():
    slurm = Slurm(*(field(job, task=str(task)) for job in (1, 2) for task in range(10_000, 30_000)))
    lines = give_back(OperatorUpdates(), slurm)
    assert max(map(len, lines)) < 250
    assert 4 <= len(slurm.updates) <= 6
    assert max(len(jobs) for jobs, _ in slurm.updates) < 130_000
    assert {one.value for one in slurm.fields} == {OWN}


def test_closing_a_field_does_not_copy_those_that_are_closed():
    closed = ClosedFields()
    for job_id in range(20_000):
        closed.close((job_id, "", "timemin"))
    tracemalloc.start()
    allocated = []
    for job_id in range(20_000, 20_008):
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        closed.close((job_id, "", "timemin"))
        allocated.append(tracemalloc.get_traced_memory()[1] - before)
    tracemalloc.stop()
    assert min(allocated) < 10_000  # bytes; a copy takes a hundred times as many


def test_what_was_given_back_is_done_with_and_what_had_no_effect_is_tried_again():
    slurm, updates = Slurm(field(7)), OperatorUpdates()
    slurm.deaf = True
    for _ in range(2):
        give_back(updates, slurm)
    assert len(slurm.updates) == 2
    slurm.deaf = False
    give_back(updates, slurm)
    slurm.fields = [field(7)]  # its user wants that
    give_back(updates, slurm)
    assert len(slurm.updates) == 3


def test_a_refusal_is_said_and_the_others_are_done():
    slurm = Slurm(field(7), field(9, name="numnodes", own="1-8"))
    slurm.refuses = True
    assert give_back(OperatorUpdates(), slurm) == [
        "timemin=0 of 1 jobs: Invalid job id",
        "numnodes=1-8 of 1 jobs: Invalid job id",
    ]


def test_jobs_that_are_gone_are_forgotten():
    updates = OperatorUpdates()
    updates.look([field(4, "60"), field(5, "60", task="3")])
    updates.look([field(5, "60", task="3-9")])
    assert updates.may_change(field(4))
    assert not updates.may_change(field(5, task="3"))


def test_of_tasks_that_wait_in_one_record_any_may_have_what_nimo_wrote():
    updates = OperatorUpdates()
    updates.look([field(4, "60", task="1-2")])
    assert updates.may_change(field(4, "60", task="1-2"))
    slurm = Slurm(field(4, "60", task="1"), field(4, task="2"))
    give_back(updates, slurm)
    assert slurm.updates == [("jobid=4_2", "timemin=0")]
    assert not updates.may_change(field(4, "60", task="1-2"))


def test_what_is_saved_is_saved_once_and_what_cannot_be_read_is_none(caplog):
    closed = ClosedFields()
    assert closed.unsaved() is None
    closed.close((7, "", "timemin"))
    text = closed.unsaved()
    assert closed.unsaved() is None
    other = ClosedFields(restored=False)
    other.close((8, "1", "timemin"))
    assert other.unsaved() is None
    other.restore(text)
    assert (7, "", "timemin") in other and (8, "1", "timemin") in other
    assert other.unsaved() != text
    other = ClosedFields(restored=False)
    other.restore("{")
    assert other.restored
    assert "cannot be read" in caplog.text


class LastWord(RuleBasedStateMachine):
    """Users, looks and NIMO's acts in any order; nimod may start anew."""

    jobs = st.integers(1, 3)

    def __init__(self):
        super().__init__()
        self.slurm, self.updates = Slurm(field(1), field(2, task="9"), field(3)), None
        self.last: dict[int, str] = {}  # each user's last word
        self.seen: set[int] = set()  # whose users were seen to have had another
        self.text = ""
        self.start()

    @rule()
    def start(self):
        """What was left alone is saved now and then, and restored at the next start."""
        saved = self.closed.unsaved() if self.updates else ""
        self.text = self.text if saved is None else saved
        self.closed = ClosedFields(restored=False)
        self.updates = OperatorUpdates(self.closed)
        assert give_back(self.updates, self.slurm) == []
        self.closed.restore(self.text)

    @rule(job=jobs, value=st.sampled_from([WRITTEN, OWN, "9"]))
    def user_updates(self, job, value):
        self.last[job] = value
        self.slurm.fields = [
            field(one.job_id, value, one.task) if one.job_id == job else one
            for one in self.slurm.fields
        ]

    @rule()
    def look(self):
        self.note()
        self.updates.look(self.slurm.fields)

    @rule(deaf=st.booleans())
    def act(self, deaf):
        self.slurm.deaf = deaf
        give_back(self.updates, self.slurm)
        for one in self.slurm.fields:
            # What had its user's value stays; so does what NIMO wrote, once another was seen.
            if one.value != self.last.get(one.job_id, one.value):
                assert self.last[one.job_id] == WRITTEN
                assert one.job_id not in self.seen
                self.last[one.job_id] = one.value
        self.seen |= {one.job_id for one in self.slurm.fields if one.value == OWN and not deaf}

    def note(self):
        self.seen |= {one.job_id for one in self.slurm.fields if one.value != WRITTEN}

    @invariant()
    def users_have_what_they_said_last(self):
        for one in self.slurm.fields:
            assert one.value == self.last.get(one.job_id, one.value)


TestLastWord = LastWord.TestCase
TestLastWord.settings = settings(max_examples=300, stateful_step_count=30, deadline=None)
