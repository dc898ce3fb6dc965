"""What one request may cost: the worst that nimod takes in steps, and what becomes of more."""

from itertools import count

import msgspec
import pytest

from slurm_plugin.config.setting_types import Mode
from slurm_plugin.config.settings import Config, OptIn, SizesRule
from slurm_plugin.decision.eligibility import CountRange, span_of
from slurm_plugin.decision.service import DecisionService
from slurm_plugin.decision.submitted_job import SubmittedJob
from slurm_plugin.protocol.lines import encode
from slurm_plugin.protocol.reasons import Reason
from slurm_plugin.protocol.request_messages import Ask, Command, decode_ask
from slurm_plugin.slurm.cluster_state import RawNode, RawPartition, RawState
from slurm_plugin.slurm.node_pool import profile
from slurm_plugin.slurm.slurm_conf import SlurmConf
from slurm_plugin.slurm.snapshot import build
from tests.slurm_plugin.made import NOW, job, stored, table
from tests.steps import counting

PARTITIONS = [f"p{number}" for number in range(60)]
#: Steps of Python for one request; an honest one takes 1,500.
MOST_STEPS = 500_000


def site():
    """Sixty partitions of the same 500 nodes, and licences."""
    kind = {"state": frozenset({"IDLE"}), "cpus": 16, "mem_mib": 64_000}
    nodes = [RawNode(name=f"n{n}", partitions=tuple(PARTITIONS), **kind) for n in range(500)]
    raw = RawState(nodes=nodes, partitions=[RawPartition(name=name) for name in PARTITIONS])
    made = build(raw, SlurmConf(counts_memory=True), cluster="pine", taken_s=NOW)
    licences = {f"l{n}": profile([(NOW, 2)]) for n in range(200)}
    return msgspec.structs.replace(made, licences=licences)


def service(**options):
    made = DecisionService(Config(mode=Mode.ENFORCE), new_id=lambda: "0" * 12, **options)
    made.tables, made.cluster = stored(table()), site()
    return made


def listed(texts, most=4096):
    text = ",".join(texts)[: most + 1]
    return text[: text.rindex(",")]


ALL = {"partition": ",".join(PARTITIONS)}
EXCLUDED = {"exc_nodes": "n[" + listed((f"{n % 9}-99999" for n in range(9999)), 16_000) + "]"}
DEVICES = listed(f"gres/g{n}:1" for n in range(999))
WORST = {
    "lists": ALL | EXCLUDED | {"licenses": listed(f"l{n % 200}:1" for n in range(999))},
    "features": ALL | {"features": listed(f"a{n}|b" for n in range(999)).replace(",", "|")},
    "devices": ALL | EXCLUDED | dict.fromkeys(
        ("tres_per_node", "tres_per_task", "tres_per_job", "cpus_per_tres"), DEVICES
    ),
    "directives": {"script": "#!/bin/sh\n" + "#SBATCH --nodes=1-8 -J x\n" * 5_000},
    "commands": {"script": "torchrun\n#SBATCH -N 1,2\n" + "mpirun -np 4 ./a 'y' \\\n" * 5_000},
    "arguments": {"argv": ["./x"] * 16_000},
}  # fmt: skip


@pytest.mark.parametrize("name", WORST)
def test_the_worst_request_takes_few_steps(name):
    asked = decode_ask(encode(Ask(job=job(**WORST[name])))).job
    made = service()
    with counting(MOST_STEPS):
        _, book = made.answer(asked, via="job_submit", now_s=NOW)
        book()


@pytest.mark.parametrize(
    "fields",
    [{"argv": ["x"] * 16_385}, {"argv": ["x" * 40_000] * 2}, {"script": "x" * 131_073}],
    ids=["words", "characters", "script"],
)
def test_longer_texts_are_refused(fields):
    with pytest.raises(msgspec.DecodeError, match=r"length <=|characters"):
        decode_ask(encode(Ask(job=job(**fields))))
    given = msgspec.Raw(msgspec.json.encode({"argv": fields.get("argv", ["x" * 70_000])}))
    with pytest.raises(msgspec.DecodeError, match=r"length <=|characters"):
        Command(given=given).resolved()


def test_a_request_without_time_left_changes_nothing_and_says_why():
    clock = count()
    made = service(cpu_clock=lambda: float(next(clock)), most_s=20.0)
    answer, book = made.answer(job(**ALL), via="job_submit", now_s=NOW)
    assert (answer.action, answer.reason) == ("keep", Reason.PROCESSOR_TIME)
    row = book()
    assert (row.reason, row.user, row.applied) == ("processor_time", "alice", False)
    full = job(**ALL, account="physics", qos="normal")
    assert made.prepare(full, now_s=NOW).ticket == ""
    refused = made.advise(job(**ALL), now_s=NOW)
    assert not refused.ok
    assert "processor time" in refused.error
    # One partition, and what follows from the request.
    assert made.answer(job(partition="p1"), via="job_submit", now_s=NOW)[0].action == "set"


OPT_IN = OptIn()
STRICT = OptIn(node_range=False)
SITE = OptIn(rules=(SizesRule(partition="moldable", nodes="2-6"),))


def span(opt_in=OPT_IN, **fields):
    one = job(**fields)
    return span_of(SubmittedJob.of(one, None), opt_in)


def test_a_range_opts_in_with_or_without_an_end():
    assert span(min_nodes=2, max_nodes=16) == CountRange(2, 16)
    assert span(min_nodes=2, max_nodes=None).high > 10**6


def test_a_range_does_not_opt_in_where_the_site_wants_more():
    assert span(STRICT).fixed is Reason.NOT_OPTED_IN
    assert span(STRICT, comment="nimo:app=wrf").fixed is None


def test_one_count_is_fixed_whatever_the_comment_says():
    fixed = {"min_nodes": 4, "max_nodes": 4, "min_cpus": 4}
    assert span(**fixed) == CountRange(4, 4, Reason.FIXED_COUNT)
    assert span(**fixed, comment="nimo:nodes=1-8").fixed is Reason.FIXED_COUNT


@pytest.mark.parametrize(
    ("comment", "expected"),
    [
        ("", CountRange(1, 1, Reason.NOT_OPTED_IN)),
        ("nimo:app=wrf", CountRange(1, 1, Reason.NOT_OPTED_IN)),
        ("nimo:app=wrf,nodes=2-16", CountRange(2, 16)),
        ("for Eve nimo:nodes=2-16,app=wrf thanks", CountRange(2, 16)),
        ("nimo:nodes=16-2", CountRange(2, 16)),
        ("nimo:nodes=2-16x", CountRange(1, 1, Reason.NOT_OPTED_IN)),
        ("animo:nodes=2-16", CountRange(1, 1, Reason.NOT_OPTED_IN)),
    ],
)
def test_a_tag_gives_counts_to_a_job_without(comment, expected):
    assert span(min_nodes=None, max_nodes=None, comment=comment) == expected


def test_a_site_gives_counts_to_jobs_without():
    none = {"min_nodes": None, "max_nodes": None}
    assert span(SITE, **none, partition="moldable") == CountRange(2, 6)
    assert span(SITE, **none, partition="batch").fixed is Reason.NOT_OPTED_IN
    assert span(SITE, partition="moldable") == CountRange(1, 16)


def test_a_tag_goes_before_the_site():
    none = {"min_nodes": None, "max_nodes": None}
    assert span(SITE, **none, partition="moldable", comment="nimo:nodes=1-3") == CountRange(1, 3)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"comment": "nimo:off"}, Reason.OPTED_OUT),
        ({"het_job_offset": 0}, Reason.HET),
        ({"array_inx": "1-9"}, Reason.ARRAY),
        ({"reservation": "exam"}, Reason.RESERVATION),
        ({"req_nodes": "n[1-4]"}, Reason.NODE_LIST),
        ({"exc_nodes": "n7"}, Reason.EXCLUDED_NODES),
        ({"contiguous": 1}, Reason.LAYOUT),
        ({"req_switch": 1}, Reason.LAYOUT),
        ({"node_sizes": True}, Reason.NODE_SIZES),
        ({"dependency": "afterok:1,expand:7"}, Reason.DEPENDENCY),
        ({"num_tasks": 8}, Reason.FIXED_TASKS),
        ({"tres_per_job": "gres/gpu:8"}, Reason.FIXED_CPUS),
    ],
)
def test_other_bonds_are_named(fields, reason):
    assert span(**fields).fixed is reason


def test_an_ordinary_dependency_binds_nothing():
    assert span(dependency="afterok:1?afterany:2").fixed is None


@pytest.mark.parametrize(
    "option",
    [
        *("-N 2,4,8", "-N2,4", "--nodes=8,2", "--nodes 2-8:2", "-J x -N 2-4,8"),
        *("-vN2,4", "-N  '2,4'", '-N"2",4'),
    ],
)
def test_a_script_that_lists_node_counts_is_left_to_slurm(option):
    script = f"#!/bin/sh\n#SBATCH {option}\nsrun x\n"
    assert span(min_nodes=2, max_nodes=8, script=script).fixed is Reason.NODE_SIZES


@pytest.mark.parametrize("option", ["-N 2-8", "-N 3,6", "-p a,b -N 2-8", "-N 2-8 -t 10:00"])
def test_a_range_is_none_nor_is_a_list_that_the_command_line_replaced(option):
    script = f"#!/bin/sh\n#SBATCH {option}\nsrun x\n"
    assert span(min_nodes=2, max_nodes=8, script=script).fixed is None


def test_a_job_without_nodes_gets_none():
    site = OptIn(rules=(SizesRule(partition="*", nodes="2-6"),))
    assert span(site, min_nodes=0, max_nodes=None).fixed is Reason.FIXED_COUNT
    assert span(site, min_nodes=0, max_nodes=4).fixed is None
