"""Decisions on several hundred requests of all shapes, as they were recorded.

Whoever moves code or changes a name must not change a decision.  Whoever changes decisions for
cause renews the record, and looks at its difference:

    pytest tests/slurm_plugin/decision/test_recorded_decisions.py --record
    git diff tests/data/decisions.jsonl
"""

from pathlib import Path

import msgspec
import pytest

from slurm_plugin.protocol.reasons import MISSED, Reason
from tests.slurm_plugin.decision.requests_of_all_shapes import EACH, SITES, requests, service
from tests.slurm_plugin.made import NOW

RECORD = Path(__file__).parents[2] / "data" / "decisions.jsonl"
WAITS = ("request_wait", "wait")
CHANGED = ("nimo: this job runs on ", "nimo: this job has ")
RENEW = (
    "{n} of {all} decisions differ from the recorded ones, the first on line {line}.  Where that "
    "is meant: pytest tests/slurm_plugin/decision/test_recorded_decisions.py --record, then look "
    "at git diff tests/data/decisions.jsonl\n"
    "recorded: {recorded}\n     now: {now}"
)


@pytest.fixture(scope="module")
def decided():
    return [
        line
        for seed, (name, config) in enumerate(SITES.items())
        for line in decisions(name, config, seed)
    ]


def decisions(name, config, seed):
    """Each request with its answer, the record of its decision, and the advice on it."""
    made = service(config)
    for second, job in enumerate(requests(seed)):
        now_s = NOW + second
        advice = made.advise(job, now_s=now_s)
        answer, row = made.submit(job, via="job_submit", now_s=now_s)
        one = {
            "site": name,
            "job": _said(job, "script", "argv"),
            "answer": answer,
            "decision": _said(row) if row else None,
            "advice": {
                "verdict": advice.verdict,
                "nodes": advice.nodes,
                "lines": [advice.directive, advice.time_directive],
                "waits_s": [row.wait_s for row in advice.rows],
                "meets_deadline": advice.meets_deadline,
            },
        }
        yield msgspec.json.encode(one)


def _said(one, *without):
    """Fields that say something: a new one that is empty changes no line."""
    given = msgspec.to_builtins(one)
    return {name: value for name, value in given.items() if value and name not in without}


def test_decisions_are_the_recorded_ones(decided, request):
    if request.config.getoption("--record"):
        RECORD.write_bytes(b"\n".join(decided) + b"\n")
    recorded = RECORD.read_bytes().splitlines()
    pairs = zip(decided, recorded, strict=True)
    differing = [i for i, (now, before) in enumerate(pairs) if now != before]
    if differing:
        i = differing[0]
        pytest.fail(
            RENEW.format(
                n=len(differing),
                all=len(recorded),
                line=i + 1,
                recorded=recorded[i].decode(),
                now=decided[i].decode(),
            )
        )


def test_the_requests_lead_to_decisions_of_all_kinds(decided):
    """What no request leads to, the record says nothing of."""
    made = [msgspec.json.decode(line)["decision"] for line in decided]
    rows = [row for row in made if row]
    assert len(decided) == EACH * len(SITES) >= 500
    assert {row["action"] for row in rows} == {"keep", "set", "refuse"}
    assert {row["reason"] for row in rows} >= {
        *(Reason.CHEAPEST, Reason.ARRAY, Reason.HET, Reason.UNKNOWN_APPLICATION),
        *(Reason.UNKNOWN_PARTITION, Reason.FIXED_TASKS, Reason.RESERVATION),
    }
    assert sum(row.get("applied", False) for row in rows) > 40


def test_no_decision_ends_later_than_asked_beyond_the_guard_by_what_it_explains(decided):
    exempt = {Reason.MEMORY, Reason.DEADLINE, *MISSED}
    made = [one for line in decided if (one := msgspec.json.decode(line)["decision"])]
    chosen = [one for one in made if one["action"] == "set" and one["reason"] not in exempt]
    assert len(chosen) > 50
    for one in chosen:
        asked, given = (one.get(f"{of}_s", 0.0) + one.get(f"{of}_most_s", 0.0) for of in WAITS)
        # No wait is on record here: none is a reason to run longer.
        most_s = asked + 1.25 * one["request_predicted_s"] + 60
        assert given + one["predicted_s"] <= most_s, one


def test_a_user_reads_one_line_about_every_change_and_none_where_slurm_would_give_the_same(decided):
    made = [msgspec.json.decode(line) for line in decided]
    changed = [one for one in made if one["answer"].get("set", {}).keys() & {"min_nodes"}]
    silent = 0
    for one in changed:
        decision = one["decision"]
        lines = one["answer"].get("message", "").splitlines()
        same = decision["nodes"] == decision["requested_nodes"]
        same &= "given_limit_s" not in decision and not one["answer"]["set"].get("time_limit")
        assert len([line for line in lines if line.startswith(CHANGED)]) == (0 if same else 1), one
        silent += same
    assert 0 < silent < len(changed)
