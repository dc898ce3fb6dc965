"""Advice on requests of all shapes: rows, lines to paste and memory fit the nodes that they get."""

import pytest
from msgspec.structs import replace

from predictor.memory import Memory
from sacct_ingest.runs.layout import Each, Layout, Unit
from sacct_ingest.scripts.job_script import parse_command_line
from slurm_plugin.protocol.reasons import Reason
from slurm_plugin.slurm.job_request import Submitter, job_fields, make_job
from slurm_plugin.slurm.node_pool import NodeGroup
from tests.slurm_plugin.decision.submitting import advisor, submit
from tests.slurm_plugin.decision.test_sizes import FREE, advice, look, one_node, sized
from tests.slurm_plugin.made import NOW, amdahl, job, table

RANKS = Layout(cpus=1, each=Each.TASK, nodes=1)
#: However they lie on nodes: of one CPU for each task.
SPREAD = Layout(cpus=1, each=Each.ANY)
GPU_RANKS = Layout(cpus=1, gpus=None, each=Each.GPU, nodes=1)
MIB = 2**20


def grows(*sizes):
    """Memory of a program of which each task needs 400 MiB; a CPU has 500."""
    return tuple(Memory(size, 400 * size * MIB) for size in sizes)


def sizes(reported):
    return [row.nodes for row in reported.rows]


def on_gpus(layout, *counts):
    return sized(layout, Unit.GPUS, nodes=counts, observed=counts)


def requested(words):
    line = parse_command_line(["sbatch", "-Jsolve", *words.split(), "solve.sh"])
    return make_job(job_fields(line, "#!/bin/sh\n", Submitter("alice", 1, "/"), now_s=NOW))


@pytest.mark.parametrize("words", ["-n 4", "", "-N 1 -n 4"])
def test_tasks_on_a_node_have_the_memory_of_them_all(words):
    made = sized(RANKS, memory=grows(1, 4, 16), runs=9)
    reported = advice(requested(words), tables=[made])
    assert sizes(reported) == list(range(1, 17))
    assert reported.directive == f"#SBATCH --ntasks={reported.nodes}"


def test_tasks_without_a_node_count_may_need_several_nodes():
    made = sized(SPREAD, nodes=[8, 16, 32, 64, 128], observed=[8, 16, 32], memory=grows(8, 16, 32))
    reported = advice(requested("-n 16"), tables=[made])
    assert sizes(reported) == [8, 16, 32, 64]  # of four nodes with sixteen CPUs each


def test_tasks_without_a_node_count_are_laid_out_as_runs_on_full_nodes():
    full = Layout(16, 16)  # of four nodes with sixteen CPUs each
    made = table(layout=full, asked=2)
    reported = advice(requested("-n 32"), tables=[made])
    assert not any("layout" in one or "this job has" in one for one in reported.problems)
    assert reported.asked == 2
    assert reported.directive == "#SBATCH --nodes=2"
    assert advice(requested("-n 4"), tables=[made]).asked != 2


@pytest.mark.parametrize("cpus", [0, 1])
def test_a_job_that_names_nothing_has_other_tasks_where_its_runs_had(cpus):
    made = sized(Layout(cpus=cpus, each=Each.ANY), nodes=[1, 8, 32], observed=[1, 8, 32])
    reported = advice(requested(""), tables=[made])
    assert sizes(reported) == [1, 8, 32]  # of four nodes with sixteen CPUs each
    assert reported.directive == f"#SBATCH --ntasks={reported.nodes}"


def test_runs_on_one_node_say_nothing_of_several():
    made = sized(RANKS, nodes=[8, 16, 32], observed=[8, 16])
    assert sizes(advice(requested("-n 8"), tables=[made])) == [8, 16]


def test_what_larger_runs_needed_is_not_asked_for():
    made = sized(RANKS, memory=grows(1, 2, 4, 8, 16), nodes=range(1, 9), time_of=amdahl(1000, 500))
    reported = advice(requested("-n 2 --mem=12G"), tables=[made])
    assert reported.nodes == 1
    assert reported.memory_directive == "#SBATCH --mem=500M"  # 400 MiB times 1.2


def test_no_memory_is_named_that_no_node_has():
    small = NodeGroup(cpus=16, mem_mib=4000, steps=((NOW, 16, 4000, ()),))
    lines = [
        advice(
            requested("-c 8 --mem=3000"),
            tables=[sized(memory=(Memory(1, 100), Memory(16, need * MIB)))],
            where=look(small, node_mem_bytes=4000 * MIB),
        ).memory_directive
        for need in (3000, 3500)
    ]
    assert [bool(line) for line in lines] == [True, False]


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        ("-n 2 --gpus-per-task=1", "--gpus-per-task=1 --ntasks=4"),
        ("-n 2 --gpus=2", "--gpus=4 --ntasks=4"),
        (
            "-N 1 --ntasks-per-node=2 --gpus-per-node=2",
            "--gpus-per-node=4 --ntasks=4 --ntasks-per-node=4",
        ),
        ("--gpus=2 --cpus-per-task=2", "--gpus=4 --cpus-per-task=4"),
        ("--gpus=2 --cpus-per-gpu=1", "--gpus=4"),
    ],
)
def test_tasks_or_cpus_follow_the_number_of_gpus(words, lines):
    reported = advice(requested(words), tables=[on_gpus(GPU_RANKS, 1, 2, 4)])
    assert (reported.nodes, reported.directive) == (4, f"#SBATCH {lines}")


def test_gpus_without_a_node_count_may_need_several_nodes():
    made = on_gpus(Layout(gpus=None, each=Each.ANY), 2, 4, 8, 16)
    reported = advice(requested("-n 4 --gpus=4"), tables=[made])
    assert sizes(reported) == [2, 4, 8, 16]  # of four nodes with four each


def test_a_tag_on_gpus_leaves_jobs_whose_tasks_would_have_to_follow():
    made = advisor(tables=[on_gpus(GPU_RANKS, 1, 2, 4)], look=look(FREE))
    ranks = one_node(comment="nimo:gpus=1-4", num_tasks=2, min_cpus=2, tres_per_job="gres/gpu:2")
    answer, _ = submit(made, ranks)
    assert (answer.action, answer.reason) == ("keep", Reason.FIXED_TASKS)
    alone = one_node(
        comment="nimo:gpus=1-4", cpus_per_task=2, min_cpus=2, tres_per_job="gres/gpu:2"
    )
    assert submit(made, alone)[0].action == "set"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("mpirun -np 64 ./x", "-np 64"),
        ("torchrun --nnodes=2 t.py", "--nnodes=2"),
        ("mpirun -np $SLURM_NTASKS ./x", ""),
    ],
)
def test_advice_on_nodes_says_what_the_script_fixes(line, words):
    request = job(min_nodes=4, max_nodes=4, script=f"#!/bin/sh\n{line}\n")
    reported = advisor(tables=[table()]).advise(request, now_s=NOW)
    assert reported.directive
    assert reported.script_text.startswith(f"The script says {words}:" if words else "")
    assert bool(reported.script_text) is bool(words)


def test_advice_on_gpus_says_that_the_tasks_are_fixed():
    request = replace(requested("-n 2 --gpus=2"), script="#!/bin/sh\nmpirun -np 2 ./x\n")
    reported = advice(request, tables=[on_gpus(GPU_RANKS, 1, 2, 4)])
    assert reported.script_text.startswith("The script says -np 2:")


def test_an_array_over_nodes_is_advised_on_each_of_its_tasks():
    request = job(array_inx="0-9", min_nodes=4, max_nodes=4)
    reported = advisor(tables=[table()]).advise(request, now_s=NOW)
    assert reported.directive.startswith("#SBATCH --nodes=")
    assert reported.size_text.startswith("The numbers are those of one task of the array. All 10")
