"""What one request may cost: the worst that nimod takes in steps, and what becomes of more."""

from itertools import count

import msgspec
import pytest

from slurm_plugin.config.setting_types import Mode
from slurm_plugin.config.settings import Config
from slurm_plugin.decision.service import DecisionService
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
