"""Other users' runs move nobody's job: their node count, limit and fate are as without them."""

import dataclasses
import re
from itertools import count

import pytest
from msgspec.structs import replace

from predictor.level.record import Record
from predictor.level.record import decode as read
from predictor.refit import refit
from predictor.stored_table import acting_of, decode
from sacct_ingest.records import CURVE_LEVELS, JobState, KeyLevel
from sacct_ingest.runs.sharing import SharedTag
from sacct_ingest.store import Store
from slurm_plugin.config.setting_types import Explore, Mode, OnMissed, TimeUse
from slurm_plugin.config.settings import Config, Deadline, Policy, Sharing, TimeLimit
from slurm_plugin.decision.lookup import PredictionLookup
from slurm_plugin.decision.service import DecisionService
from slurm_plugin.evaluation import feedback
from slurm_plugin.protocol.reasons import Reason
from slurm_plugin.reports.advice_text import render
from slurm_plugin.slurm.limits import Association, LimitTables
from tests.sacct_ingest.records import run
from tests.slurm_plugin.made import NOW, cluster, job

TAG = "nimo:app=cfd"
SCRIPT = "#!/bin/sh\nsrun ./solve\n"
BINDING = Config(
    mode=Mode.ENFORCE,
    time_limit=TimeLimit(use=TimeUse.SET),
    deadline=Deadline(missed=OnMissed.REFUSE),
)


class Site:
    """A store, and what nimod would answer from it."""

    def __init__(self, store, config=BINDING):
        self.store, self.config = store, config
        self._ids = count(1)

    def service(self):
        made = DecisionService(self.config, new_id=lambda: f"{next(self._ids):012x}")
        off = self.store.standings.off()
        made.tables = PredictionLookup(self.store.fits.payloads(), off=off)
        made.cluster = cluster()
        return made

    def answer(self, **fields):
        return self.answers([fields])[0]

    def answers(self, requests):
        refit(self.store, now_s=NOW, shared=self.config.sharing.tags)
        jobs = [asked(**fields) for fields in requests]
        made = [self.service().submit(one, via="job_submit", now_s=NOW)[0] for one in jobs]
        return [replace(answer, admin_comment="") for answer in made]


@pytest.fixture
def site(tmp_path):
    with Store.open(f"sqlite:///{tmp_path}/nimo.db", create=True) as store:
        made = Site(store)
        store.runs.add(runs_of("alice", 3600.0))
        yield made


def asked(**fields):
    given = {"comment": TAG, "script": SCRIPT, "time_limit": 600, "work_dir": "/home/alice"}
    return job(**given | fields)


def runs_of(user, work_s, *, first=1, repeats=12, **given):
    """Runs on 1 to 8 nodes with a tag, from the month before."""
    made = []
    for number in range(4 * repeats):
        nodes = 2 ** (number % 4)
        elapsed_s = round(work_s * (0.03 + 0.97 / nodes) * (1 + 0.02 * (number % 3 - 1)), 0)
        submit_s = int(NOW) - 30 * 86_400 + 3600 * number + first
        fields = {
            "job_id": first + number, "submit_s": submit_s, "start_s": submit_s + 10,
            "end_s": submit_s + 10 + int(elapsed_s), "elapsed_s": max(elapsed_s, 1.0),
            "nodes": nodes, "cpus": nodes, "user": user, "uid": None, "name": "solve",
            "comment": TAG, "submit_line": "sbatch solve.sh", "work_dir": f"/home/{user}",
            "node_list": "n[1-8]",  # eight nodes, with and without the runs of others
        }  # fmt: skip
        made.append(run(**fields | given))
    return made


def tagged_short_tasks(site):
    site.store.runs.add(runs_of("bob", 1.0, first=10_000, repeats=34))


def slow_runs(site):
    site.store.runs.add(runs_of("bob", 90_000.0, first=20_000))


def runs_retagged_afterwards(site):
    plain = runs_of("bob", 1.0, first=30_000, comment="")
    site.store.runs.add(plain)
    site.store.runs.add([replace(one, comment=TAG) for one in plain])


def runs_named_after_her(site):
    site.store.runs.add(
        runs_of("bob", 1.0, first=40_000, comment="nimo:app=alice/cfd", name="alice/solve")
    )


def the_same_script_elsewhere(site):
    """Bob's script has the same text: nimod decides on his jobs, too."""
    service = site.service()
    rows = []
    for number, one in enumerate(runs_of("bob", 1.0, first=50_000, comment="")):
        request = asked(user_name="bob", comment="", work_dir="/home/bob")
        row = service.submit(request, via="job_submit", now_s=float(one.submit_s))[1]
        rows.append(row)
        note = f"NIMO1:{row.decision_id}:n=1"
        site.store.runs.add([replace(one, job_id=50_000 + number, admin_comment=note)])
    site.store.decisions.add(rows)
    assert site.store.decisions.join_outcomes() == len(rows)


ATTACKS = (
    tagged_short_tasks,
    slow_runs,
    runs_retagged_afterwards,
    runs_named_after_her,
    the_same_script_elsewhere,
)


#: A range, untagged, one count, with a deadline, and with a limit to be set too.
REQUESTS = (
    {},
    {"comment": ""},
    {"min_nodes": 4, "max_nodes": 4},
    {"deadline": f"uts{int(NOW) + 2 * 3600}"},
    {"comment": f"{TAG},time=set", "deadline": f"uts{int(NOW) + 3 * 3600}"},
)


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda one: one.__name__)
def test_runs_of_another_user_move_no_job(site, attack):
    # Twice: what a refit learns of predictions counts from the next one on.
    before = [site.answers(REQUESTS) for _ in range(2)][-1]
    attack(site)
    assert [site.answers(REQUESTS) for _ in range(2)] == [before] * 2


def test_the_attacks_are_about_jobs_that_are_decided_on(site):
    answer = site.answer()
    assert answer.action == "set"
    assert answer.set.time_limit is not None
    missed = site.answer(deadline=f"uts{int(NOW) + 60}")
    assert missed.action == "refuse"


def outcomes(site, user, elapsed_s, first):
    """Jobs of a user are decided on, and take so long."""
    service, rows = site.service(), []
    for number, one in enumerate(runs_of(user, 1.0, first=first, repeats=2)):
        request = asked(user_name=user, min_nodes=one.nodes, max_nodes=one.nodes)
        at_s = int(NOW) + number
        row = service.submit(request, via="job_submit", now_s=float(at_s))[1]
        rows.append(row)
        ended = replace(
            one,
            submit_s=at_s,
            start_s=at_s,
            end_s=at_s + int(elapsed_s),
            elapsed_s=elapsed_s,
            admin_comment=f"NIMO1:{row.decision_id}:n=1",
        )
        site.store.runs.add([ended])
    site.store.decisions.add(rows)
    site.store.decisions.join_outcomes()
    feedback.judge_applications(site.store, site.config, now_s=NOW)


def test_runs_of_another_user_switch_nothing_off_or_on(site):
    refit(site.store, now_s=NOW)
    outcomes(site, "bob", 1.0, 60_000)
    assert site.store.standings.off() == []
    assert site.answer().reason not in (Reason.OUT_OF_BAND, Reason.OTHERS_RUNS)
    outcomes(site, "alice", 1.0, 70_000)
    assert site.store.standings.off() == [(KeyLevel.TAG.value, "alice/cfd")]
    outcomes(site, "bob", 2000.0, 80_000)
    assert (KeyLevel.TAG.value, "alice/cfd") in site.store.standings.off()


def test_a_comment_that_changed_after_the_submission_is_no_tag(site):
    """`scontrol update comment=` while the job waits: nimod has recorded what it came with."""
    site.answer()
    service = site.service()
    one = runs_of("alice", 1.0, first=90_000, repeats=1)[0]
    request = asked(comment="")
    row = service.submit(request, via="job_submit", now_s=float(one.submit_s))[1]
    site.store.decisions.add([row])
    site.store.runs.add([replace(one, admin_comment=f"NIMO1:{row.decision_id}:n=1")])
    site.store.decisions.join_outcomes()
    tagged = dict(site.store.runs.by_key(KeyLevel.TAG))["alice/cfd"]
    assert one.job_id not in [each.job_id for each in tagged]


def tables_after(tmp_path, own, others):
    """Give Alice's tables after three refits, between which others' runs come in.

    Beside them is what came of what would have changed her jobs: it switches applications off.
    """
    with Store.open(f"sqlite:///{tmp_path}/{len(others)}.db", create=True) as store:
        store.runs.add(own[::2])
        for number in range(3):
            store.runs.add(others[number] if others else [])
            store.runs.add(own if number == 1 else [])
            refit(store, now_s=NOW)
        rows = (row for level in CURVE_LEVELS for row in store.fits.all() if row.level == level)
        own_tables = [one for row in rows if (one := decode(row.payload)).owner == "alice"]
        texts = (store.records.find(one.level, one.key) for one in own_tables)
        return own_tables, [
            [entry.acting for entry in read(text, Record).entries] for text in texts
        ]


def stopped_by_their_limit(runs):
    """Every fifth run of some."""
    return [
        replace(one, state=JobState.TIMEOUT, limit_s=one.end_s - (one.start_s or 0))
        if number % 5 == 4
        else one
        for number, one in enumerate(runs)
    ]


HISTORIES = {
    "curve": runs_of("alice", 3600.0, repeats=4),
    "few": runs_of("alice", 3600.0, repeats=2)[:6],
    "one count": runs_of("alice", 3600.0)[::4],
    "limits": stopped_by_their_limit(runs_of("alice", 3600.0)),
    "layouts": [
        *runs_of("alice", 3600.0, repeats=5),
        *(replace(one, tasks=4 * one.nodes, cpus=8 * one.nodes)
          for one in runs_of("alice", 1800.0, first=500, repeats=5)),
    ],
}  # fmt: skip


@pytest.mark.parametrize("history", HISTORIES)
def test_no_digit_of_what_jobs_are_changed_by_is_moved(tmp_path, history):
    """What is shown leans on the site's record, which others feed; what acts does not."""
    own = HISTORIES[history]
    others = [
        [
            one
            for user in range(5)
            for one in runs_of(f"u{user}", 10.0 ** (user % 5), first=10_000 * (user + 1) + 99 * n)
        ]
        for n in range(3)
    ]
    others[1] = [replace(one, elapsed_s=7.0 * one.elapsed_s) for one in others[1]]
    without, came = tables_after(tmp_path, own, ())
    beside, came_beside = tables_after(tmp_path, own, others)
    assert len(without) > 1
    assert any(came)
    assert came == came_beside
    for alone, crowded in zip(without, beside, strict=True):
        assert _numbers(acting_of(alone)) == _numbers(acting_of(crowded))
    # What others would only make less sure is shown as it acts: here what ran on one count.
    shown, shown_beside = (list(map(_numbers, made)) for made in (without, beside))
    assert (shown == shown_beside) is (history == "one count")


def _numbers(table):
    """Table without what is only told: of predictions, of problems, and of the cluster's size."""
    return dataclasses.replace(table, record=(), problems=(), in_cluster=0)


SHARED = SharedTag(name="lab", application="cf*", users=("bob",), accounts=("lab",))


def shared_site(site, **given):
    """Bob ran it, and shares it with an account; Carol never did."""
    tags = (replace(SHARED, **given),)
    site.store.runs.add(runs_of("bob", 3600.0, first=10_000))
    return Site(site.store, replace(BINDING, sharing=Sharing(tags=tags)))


def test_shared_runs_are_advice_and_change_nothing(site):
    shared = shared_site(site)
    answer = shared.answer(user_name="carol", account="lab")
    assert (answer.action, answer.reason) == ("keep", Reason.OTHERS_RUNS)
    missed = shared.answer(user_name="carol", account="lab", deadline=f"uts{int(NOW) + 60}")
    assert missed.action == "keep"
    advice = shared.service().advise(asked(user_name="carol", account="lab"), now_s=NOW)
    assert (advice.application, advice.verdict) == ("@lab/cfd", "reliable")
    assert advice.rows
    best = _suggested(advice.size_text)
    assert best in {row.nodes for row in advice.rows}
    assert advice.size_text in "\n".join(render(advice, now_s=NOW, width=200))
    assert "#SBATCH" not in "\n".join(render(advice, now_s=NOW, every=True, verbose=True))
    assert advice.nodes is None
    assert _lines_to_paste(advice) == []
    assert {(row.limit_s, row.time_min_s) for row in advice.rows} == {(None, None)}
    # The same runs have lines for the user whose own they are.
    own = shared.service().advise(asked(user_name="bob", account="lab"), now_s=NOW)
    assert own.directive == f"#SBATCH --nodes={own.nodes}"


def _suggested(text):
    """Count that the sentence on others' runs names."""
    found = re.fullmatch(
        r"Runs of other users suggest (\d+) nodes?: try it with your own limits\.", text
    )
    assert found, text
    return int(found[1])


def _lines_to_paste(advice):
    lines = (
        advice.directive, advice.time_directive, advice.memory_directive, advice.begin_directive
    )  # fmt: skip
    return [one for one in lines if one]


def test_shared_runs_are_for_those_named_alone(site):
    shared = shared_site(site)
    shared.answer()
    service = shared.service()
    assert service.advise(asked(user_name="carol"), now_s=NOW).verdict == "unknown"
    member = asked(user_name="carol", account="lab")
    assert service.advise(member, now_s=NOW, private=True).verdict == "unknown"
    # Alice is no member: her runs are not in it.
    table = next(iter(shared.store.fits.find([(KeyLevel.TAG, "@lab/cfd")])))
    assert b'"owner":"bob"' in table.payload.encode()


def test_who_names_an_account_of_others_shares_nothing(site):
    """`nimo-advise -A lab`: nobody but slurmctld checks what a user writes there."""
    shared = shared_site(site)
    shared.answer()
    service = shared.service()
    for account, application in (("lab", "@lab/cfd"), ("other", "")):
        limits = LimitTables(associations={(account, "carol", ""): Association()})
        service.cluster = replace(cluster(), limits=limits)
        advice = service.advise(asked(user_name="carol", account="lab"), now_s=NOW)
        assert advice.application == application


def test_the_site_may_let_shared_runs_decide(site):
    shared = shared_site(site, decide=True)
    assert shared.answer(user_name="carol", account="lab").action == "set"
    assert shared.answer(user_name="carol").action == "keep"


def test_own_runs_go_before_shared_ones(site):
    before = site.answer(account="lab")
    shared = shared_site(site)
    slow_runs(shared)
    assert shared.answer(account="lab") == before


def test_few_own_runs_change_nothing(site):
    site.store.runs.add(runs_of("dora", 3600.0, first=10_000, repeats=1))
    tried = site.answer(user_name="dora")
    assert (tried.reason, tried.set and tried.set.time_limit) == (Reason.LEARNING, None)
    untried = Site(site.store, replace(BINDING, policy=Policy(explore=Explore.OFF)))
    answer = untried.answer(user_name="dora")
    assert (answer.action, answer.reason) == ("keep", Reason.FEW_OWN_RUNS)
    enough = Site(site.store, replace(BINDING, sharing=Sharing(own_runs=4)))
    assert enough.answer(user_name="dora").reason is not Reason.FEW_OWN_RUNS


def test_limits_have_a_floor(site):
    """A share of what was asked for, and of the longest run on as many nodes or more."""
    shortest = site.answer().set
    assert shortest.time_limit is not None
    week = 7 * 24 * 60
    long = site.answer(time_limit=week).set
    assert long.time_limit == round(week * 0.05)
    hung = runs_of("alice", 1.0, first=99_000, repeats=1)[3]
    site.store.runs.add([replace(hung, elapsed_s=36_000.0, state=JobState.TIMEOUT)])
    after = site.answer(min_nodes=8, max_nodes=8).set
    assert after is None or after.time_limit is None or after.time_limit >= 300
