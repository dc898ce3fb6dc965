"""What `nimo why` prints of a waiting job as a whole: why, until when, and what would help."""

import re
from dataclasses import replace

import pytest

from slurm_plugin.reports.pending_text import EditRow, answer_of, told
from slurm_plugin.slurm.limit_reasons import binding_limit, limit_reason
from slurm_plugin.slurm.pending_job import depends_on
from slurm_plugin.slurm.pending_reasons import explain_reason
from slurm_plugin.slurm.queue_facts import QueueFacts
from slurm_plugin.text.formatting import wrapped
from slurm_plugin.text.local_time import local_time_of
from tests.slurm_plugin.reports.test_whole_answers import SAME_ENDS, WIDTH
from tests.slurm_plugin.slurm.test_pending_reasons import (
    ASSOC_MGR,
    BATCH,
    JOB,
    MAINTENANCE,
    NOW,
    REASONS,
)

_UTC = [(0, 0)]
_QUEUE = QueueFacts(now_s=NOW, partitions={"batch": BATCH}, nodes=8, ahead=3, ahead_node_hours=12.0)
_NEXT = replace(_QUEUE, ahead=0, ahead_node_hours=0.0)
_START = {"start_s": NOW + 2400, "low_s": NOW + 600, "high_s": NOW + 4000}
_SHORTER = EditRow(
    argv=["scontrol", "update", "JobId=17", "TimeLimit=01:29:00"],
    what="with a time limit of 1.5 h",
    caution="if it needs no longer", start_s=NOW, gain_s=2400.0, gain_low_s=600.0,
    gain_high_s=3900.0, chance=0.8, agreed=True,
)  # fmt: skip
_FEWER = EditRow(
    argv=["scontrol", "update", "JobId=17", "NumNodes=2-2"], what="on 2 nodes",
    caution="it may take longer on fewer", start_s=NOW + 1800, gain_s=1800.0,
)  # fmt: skip


def printed(reason, facts=_QUEUE, edits=(), job=JOB, **said):
    waits = replace(job, reason=reason, name="wrf")
    if (limit := limit_reason(reason)) is not None:
        facts = replace(facts, binding=binding_limit(ASSOC_MGR, limit, waits, ("short",)))
    with local_time_of(_UTC):
        answer = answer_of(waits, explain_reason(waits, facts))
        answer.edits = list(edits)
        for name, value in said.items():
            setattr(answer, name, value)
        lines = told(answer, now_s=NOW)
    lines = [line if line.startswith("    ") else wrapped(line, WIDTH) for line in lines]
    return "\n".join(lines) + "\n"


#: By their situation: what is printed, and how it has to read.
ANSWERS = {
    "behind others, with ways to start sooner": (
        printed("Priority", edits=[_SHORTER, _FEWER], **_START),
        """\
Job 17 (wrf) waits: 3 jobs before it in batch ask for 12.0 node-hours.
It starts about 09-21 14:53 (nine in ten of such jobs between 09-21 14:23 and
09-21 15:20).

What would start it sooner:
1. with a time limit of 1.5 h: it starts at once, about 40 min sooner (10 min to
1.1 h), 80 % certain, if it needs no longer; Slurm would take it.
     scontrol update JobId=17 TimeLimit=01:29:00
2. on 2 nodes: it could start about 09-21 14:43, 30 min sooner, it may take
longer on fewer.
     scontrol update JobId=17 NumNodes=2-2
""",
    ),
    "the next, where Slurm plans a start, too": (
        printed("Resources", replace(_NEXT, idle=2), slurm_start_s=NOW + 7200, **_START),
        """\
Job 17 (wrf) waits: it is the next for 4 nodes in batch; 2 of 8 nodes are idle.
It starts about 09-21 14:53 (nine in ten of such jobs between 09-21 14:23 and
09-21 15:20); Slurm plans 09-21 16:13.
""",
    ),
    "a start of which both ends read the same": (
        printed("Priority", start_s=NOW, low_s=NOW, high_s=NOW + 5),
        """\
Job 17 (wrf) waits: 3 jobs before it in batch ask for 12.0 node-hours.
It starts about 09-21 14:13.
""",
    ),
    "behind another job": (
        printed(
            "Dependency", job=replace(JOB, depends=depends_on("afterok:12(unfulfilled)")), **_START
        ),
        """\
Job 17 (wrf) waits: job 12 has to end well first.
It starts about 09-21 14:53 (nine in ten of such jobs between 09-21 14:23 and
09-21 15:20), if job 12 ends well.
""",
    ),
    "behind several jobs": (
        printed(
            "Dependency",
            job=replace(
                JOB,
                depends=depends_on(
                    "afterok:12(unfulfilled),afterany:13(unfulfilled),aftercorr:14_*(unfulfilled)"
                ),
            ),
        ),
        """\
Job 17 (wrf) waits: job 12 has to end well, job 13 has to end and job 14 has to
end well, task by task, before it starts.
Neither NIMO nor Slurm can say yet when it starts.
""",
    ),
    "behind a job that failed": (
        printed(
            "DependencyNeverSatisfied", job=replace(JOB, depends=depends_on("afterok:12(failed)"))
        ),
        """\
Job 17 (wrf) can never start as it is: job 12 had to end well, and cannot any
more.
What would help: run job 12 again: after 'nimo again 12 --submit' this one waits
for it.
""",
    ),
    "behind a maintenance": (
        printed(
            "Priority",
            replace(_NEXT, closing=MAINTENANCE, idle=8, idle_named=8),
            start_s=NOW + 9060,
            after="Monday's maintenance upgrade",
        ),
        """\
Job 17 (wrf) waits: its time limit (1 h) reaches into the maintenance upgrade,
which begins 09-21 14:43.
What would help: with --time=00:29:00 it would start now, if it needs no longer.
It starts about 09-21 16:44, after Monday's maintenance upgrade.
""",
    ),
    "begun later": (
        printed("BeginTime", job=replace(JOB, eligible_s=NOW + 3600)),
        """\
Job 17 (wrf) waits: it is to begin later (--begin): not before 09-21 15:13.
Neither NIMO nor Slurm can say yet when it starts.
""",
    ),
    "held by its user": (
        printed("JobHeldUser"),
        """\
Job 17 (wrf) does not start by itself: its user holds it.
What would help: release it: scontrol release.
""",
    ),
    "a limit on running jobs": (
        printed("QOSMaxJobsPerUserLimit", **_START),
        """\
Job 17 (wrf) waits: QOS short lets 1 job of a user run at once, and 1 run
(MaxJobsPerUser=1 of QOS short).
It starts about 09-21 14:53 (nine in ten of such jobs between 09-21 14:23 and
09-21 15:20).
""",
    ),
    "minutes of an account that are used up": (
        printed("AssocGrpCPUMinutesLimit"),
        """\
Job 17 (wrf) does not start by itself: it asks for 960 CPU-minutes; account
physics gives 600 CPU-minutes in all, and 580 are used or set aside for running
jobs (GrpTRESMins=cpu=600 of account physics).
What would help: use another account or QOS, or wait until its use is reset or
has decayed.
""",
    ),
}


@pytest.mark.parametrize("situation", ANSWERS)
def test_the_whole_answer_reads_as_people_say_it(situation):
    shown, expected = ANSWERS[situation]
    assert shown == expected
    assert max(map(len, shown.splitlines())) <= WIDTH


#: What there is to do begins with the word for it, or with the option that does it.
_WAYS = re.compile(
    r"(?:ask|cancel|find|leave|look|move|name|release|run|submit|take|use|with) ", re.ASCII
)


@pytest.mark.parametrize("reason", REASONS)
def test_whatever_slurm_says_the_answer_is_plain(reason):
    for facts in (_QUEUE, _NEXT, replace(_NEXT, closing=MAINTENANCE)):
        shown = printed(reason, facts)
        first, *rest = shown.splitlines()
        assert not re.search(r": it waits\b", first), shown
        assert not re.search(SAME_ENDS, shown), shown
        assert not re.search(r"\d{4}-\d\d-\d\dT|\bNone\b|\bnan\b|\binf\b", shown), shown
        assert len(first.split()) <= 30, shown
        for line in rest:
            if line.startswith("What would help: "):
                assert _WAYS.match(line.removeprefix("What would help: ")), shown
