"""Levers: each writes fields of its own, as the mode permits, and none leans on another."""

from collections import Counter
from dataclasses import replace

import msgspec
import pytest

from predictor.facts import Longest
from predictor.problems import Problem
from predictor.types import Verdict
from slurm_plugin.config.setting_types import Mode, SoftUse
from slurm_plugin.config.settings import Config, TimeLimit
from slurm_plugin.decision import service as deciding
from slurm_plugin.decision.adjustment import Adjustment, lines_of
from slurm_plugin.decision.levers import all_levers
from slurm_plugin.decision.levers.lever import Lever, TagWord
from slurm_plugin.decision.policy import Action
from slurm_plugin.protocol.decision_messages import Change
from tests.slurm_plugin.decision.requests_of_all_shapes import SITES, requests, service
from tests.slurm_plugin.decision.submitting import advisor, submit
from tests.slurm_plugin.made import NOW, job, table

PLANNED = Config(mode=Mode.ENFORCE, time_limit=TimeLimit(soft=SoftUse.ON))


def fields(change):
    """Fields that a change writes."""
    given = msgspec.structs.asdict(change or Change()).items()
    return {name: value for name, value in given if value is not None}


@pytest.fixture
def judged(monkeypatch):
    """Have each decision with its adjustments noted down beside the job it is about."""
    noted = []

    def spy(case, decided, around):
        made = all_levers.with_adjustments(case, decided, around)
        noted.append((case, made))
        return made

    monkeypatch.setattr(deciding, "with_adjustments", spy)
    return noted


def submitted(site, seed):
    made = service(site)
    made.cluster = msgspec.structs.replace(made.cluster, plans_softly=True)
    for second, asked in enumerate(requests(seed)):
        answer, _ = made.submit(asked, via="job_submit", now_s=NOW + second)
        yield answer


@pytest.mark.parametrize("site", [*SITES.values(), PLANNED], ids=[*SITES, "planned"])
def test_an_answer_is_what_its_levers_write(site, judged):
    answers = [one for one in submitted(site, 7) if one.reason != "off"]
    assert len(answers) == len(judged)
    for answer, (case, decided) in zip(answers, judged, strict=True):
        written = Counter(
            field for adjustment in decided.adjustments for field in fields(adjustment.change)
        )
        assert set(written.values()) <= {1}, "two levers write one field"
        if case.site.mode is not Mode.ENFORCE or decided.action is Action.REFUSE:
            assert not written
        assert fields(answer.set).keys() == written.keys()
    assert site is not PLANNED or any("soft_min" in fields(one.set) for one in answers)


def test_levers_are_independent(monkeypatch):
    """Without one of them the others do what they did."""

    def changes(levers):
        monkeypatch.setattr(all_levers, "LEVERS", levers)
        sites = (SITES["enforce, limits"], PLANNED)
        answers = (one for site in sites for seed in range(2) for one in submitted(site, seed))
        return [fields(one.set) for one in answers]

    every = all_levers.LEVERS
    together = changes(every)
    assert any("time_limit" in one for one in together)
    assert any("min_nodes" in one for one in together)
    for lever in every:
        alone = changes((lever,))
        others = changes(tuple(one for one in every if one is not lever))
        joined = [one | two for one, two in zip(alone, others, strict=True)]
        assert joined == together


def paint(case, decided, _):
    red = case.request.tag is not None
    change = Change(prefer="red") if red else Change()
    return Adjustment(
        change=change,
        line="this job is red",
        warnings=("red fades",),
        recorded={"given_place": "red"},
    )


COLOUR = TagWord("colour=red", "paint", lambda *_: True, lambda *_: "there is none")


def test_a_new_lever_is_one_file(monkeypatch):
    """Where it is listed it is written, said, recorded, and asked for by its word of the tag."""
    monkeypatch.setattr(all_levers, "LEVERS", (*all_levers.LEVERS, Lever(paint, COLOUR)))
    made = service(Config(mode=Mode.ENFORCE))
    answer, row = made.submit(job(comment="nimo:on"), via="job_submit", now_s=NOW)
    assert answer.set.prefer == "red"
    first, *others = answer.message.splitlines()
    assert first == "nimo: red fades"
    assert "nimo: this job is red" in others
    assert others[-1] == "nimo: colour=red changes nothing: there is none; it takes paint"
    assert row.given_place == "red"


def test_of_a_count_that_ran_no_other_counts_are_called_missing():
    few = Problem("no_curve", "finished runs on 4 nodes only; a curve needs 3 node counts")
    made = table(nodes=(4,), observed=(4,), verdict=Verdict.DOUBTFUL, problems=(few,))
    request = job(comment="nimo:time=set", min_nodes=4, max_nodes=4)
    answer, _ = submit(advisor(tables=[made]), request)
    assert answer.message == (
        "nimo: time=set changes nothing: the prediction on 4 nodes is doubtful; "
        "it takes enough of your own runs for a reliable prediction"
    )


def test_runs_that_differ_too_much_to_set_a_limit_have_one_to_ask_for():
    """Their user reads which limit would hold them all, and it does."""
    seen = (Longest(4, 240.0),)
    own = {"nodes": (4,), "observed": (4,), "owner": "alice", "longest": seen}
    made = table(lambda _: 200.0, verdict=Verdict.DOUBTFUL, **own)
    asked = {"comment": "nimo:time=set", "min_nodes": 4, "max_nodes": 4}
    answer, _ = submit(advisor(tables=[made]), job(**asked, time_limit=600))
    assert "doubtful, though --time=00:30:00 would hold all its runs; it takes" in answer.message
    answer, _ = submit(advisor(tables=[made]), job(**asked, time_limit=5))
    assert "would hold" not in answer.message
    others = replace(made, owner="bob")
    answer, _ = submit(advisor(tables=[others]), job(**asked, time_limit=600))
    assert "would hold" not in answer.message


def test_a_lever_refuses_a_job_in_words(monkeypatch):
    def closed(*_):
        return Adjustment(refuses=True, warnings=("closed",), change=Change(prefer="red"))

    monkeypatch.setattr(all_levers, "LEVERS", (*all_levers.LEVERS, Lever(closed)))
    answer, row = service(Config(mode=Mode.ENFORCE)).submit(job(), via="job_submit", now_s=NOW)
    assert (answer.action, answer.set, answer.message) == ("refuse", None, "nimo: closed")
    assert row.applied


def test_a_user_told_of_one_change_is_told_of_all():
    count = Adjustment(line="this job runs on 4 nodes instead of 8")
    longer = Adjustment(
        line="this job has --time=02:00:00", clause="with --time=02:00:00", urgent=True
    )
    memory = Adjustment(line="this job has --mem=100M instead of 200M")
    assert lines_of([count, memory], every=False) == []
    together = [
        "nimo: this job runs on 4 nodes instead of 8, with --time=02:00:00",
        "nimo: this job has --mem=100M instead of 200M",
    ]
    assert lines_of([count, longer, memory], every=False) == together
    assert lines_of([longer], every=True) == ["nimo: this job has --time=02:00:00"]
