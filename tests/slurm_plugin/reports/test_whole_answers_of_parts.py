"""What `nimo-advise` prints as a whole for jobs counted in CPUs or GPUs, and for unlike nodes."""

import re
from dataclasses import replace

import pytest

from predictor.facts import Failures
from predictor.types import Verdict
from sacct_ingest.runs.layout import Unit
from slurm_plugin.reports.advice_text import render
from tests.slurm_plugin.decision import test_gpu_types, test_het_jobs, test_node_types, test_sizes
from tests.slurm_plugin.decision.submitting import advisor
from tests.slurm_plugin.made import NOW
from tests.slurm_plugin.reports.test_whole_answers import SAME_ENDS, WIDTH

_FAILURES = Failures(5, 5, 20, 3.0, 3.2, 2, 299)
_TWO_GPUS = {"tres_per_job": "gres/gpu:2", "cpus_per_task": 8, "min_cpus": 8}
_FOUR_CPUS = {"cpus_per_task": 4, "min_cpus": 4}
_FOUR_TASKS = {"num_tasks": 4, "cpus_per_task": 2, "min_cpus": 8}


def of_cpus(**asked):
    return test_sizes.advice(test_sizes.one_node(**_FOUR_CPUS, **asked))


def of_tasks(runs_had=test_sizes.TASKS):
    job = test_sizes.one_node(**_FOUR_TASKS)
    return test_sizes.advice(job, tables=[test_sizes.sized(runs_had)])


def of_gpus(where=test_sizes.FREE):
    made = test_sizes.sized(test_sizes.DEVICES, Unit.GPUS, nodes=[1, 2, 3, 4], observed=[1, 2, 4])
    job = test_sizes.one_node(**_TWO_GPUS)
    return test_sizes.advice(job, tables=[made], where=test_sizes.look(where))


def of_one_cpu():
    made = replace(test_sizes.sized(nodes=[1], observed=[1]), one_cpu=True)
    job = test_sizes.one_node(cpus_per_task=1, min_cpus=1)
    return test_sizes.advice(job, tables=[made])


def of_places(verdict=Verdict.RELIABLE, runs=2, **asked):
    learned = test_node_types.learned(by_type=(test_node_types.by_type(verdict, runs),))
    return test_node_types.advise(learned, **asked)


def of_gpu_types(asked="gres/gpu:2"):
    return test_gpu_types.advised(tres_per_node=asked, partition="gpu")


def of_components(*words, runs=10, failures=None):
    learned = [
        replace(one, failures=failures) for one in test_het_jobs.tables((1, 1), (2, 2), runs=runs)
    ]
    return advisor(tables=learned).advise(test_het_jobs.asked(*words), now_s=NOW)


#: By their situation: an advice, and all that is printed before the tables.
ANSWERS = {
    "GPUs of an idle node": (
        of_gpus(),
        """\
About 17 min on 4 GPUs (9 of 10 runs: 15 to 18 min); starts at once. Ask for:
#SBATCH --gpus=4 --cpus-per-task=16
#SBATCH --time=00:23:00

This limit rests on 10 runs: the longest ones may need more.
It ends 15 min sooner than on 2, for 0.056 GPU-hours more (>99 % certain that it
ends no later).
""",
    ),
    "GPUs of a busy node": (
        of_gpus(test_sizes.BUSY),
        """\
About 32 min on 2 GPUs (9 of 10 runs: 29 to 35 min); starts within 1 h. Ask for:
#SBATCH --gpus=2
#SBATCH --time=00:44:00

This limit rests on 10 runs: the longest ones may need more.
No other count is better.
""",
    ),
    "CPUs": (
        of_cpus(),
        """\
About 6.7 min on 12 CPUs (9 of 10 runs: 6.1 to 7.3 min); starts at once.
#SBATCH --cpus-per-task=12
#SBATCH --time=00:10:00

This limit rests on 10 runs: the longest ones may need more.
It ends 10 min sooner than on 4, for 0.22 CPU-hours more (>99 % certain that it
ends no later).
""",
    ),
    "tasks": (
        of_tasks(),
        """\
About 9.2 min on 8 CPUs (9 of 10 runs: 8.3 to 10 min); starts at once. Ask for:
#SBATCH --ntasks=4
#SBATCH --time=00:13:00

4 tasks with 2 CPUs each have 8 CPUs.
This limit rests on 10 runs: the longest ones may need more.
""",
    ),
    "runs of another layout": (
        of_tasks(test_sizes.THREADS),
        """\
There is no prediction for this layout.

All runs had 1 task in all on 1 node, this job has 4 tasks in all: their run
times do not apply.
""",
    ),
    "an array": (
        of_cpus(array_inx="0-9"),
        """\
About 6.7 min on 12 CPUs (9 of 10 runs: 6.1 to 7.3 min); starts at once.
#SBATCH --cpus-per-task=12
#SBATCH --time=00:10:00

The numbers are those of one task of the array. All 10 tasks end in about 13
min.
This limit rests on 10 runs: the longest ones may need more.
""",
    ),
    "a serial job": (
        of_one_cpu(),
        """\
About 1 h on 1 CPU (9 of 10 runs: 56 min to 1.1 h); starts at once. Ask for:
#SBATCH --cpus-per-task=1
#SBATCH --time=01:25:00

This limit rests on 10 runs: the longest ones may need more.
All its runs used one CPU, so one CPU is enough.
""",
    ),
    "components": (
        of_components(*test_het_jobs.ALIKE),
        """\
About 10 min on 3 nodes (9 of 10 runs: 8.9 to 11 min); starts at once. Ask for:
#SBATCH --time=00:15:00 --time-min=00:14:00

Give each component this limit.
The components of a heterogeneous job keep what they ask for.
""",
    ),
    "components whose runs failed, with too short a limit": (
        of_components("-N1", "-t5", ":", "-N2", "-t5", failures=_FAILURES),
        """\
About 10 min on 3 nodes (9 of 10 runs: 8.9 to 11 min); starts at once. Ask for:
#SBATCH --time=00:15:00 --time-min=00:14:00

The last 5 runs failed after 3 s (exit 2); the last output was in slurm-299.out.
Such runs take 8.9 to 11 min, and the time limit is 5 min.
Give each component this limit.
""",
    ),
    "components that ran once": (
        of_components(*test_het_jobs.ALIKE, runs=1),
        """\
About 10 min on 3 nodes, unreliable (9 of 10 runs: 4.2 to 24 min). Ask for:
#SBATCH --time=00:41:00

Give each component this limit. This limit rests on 1 run: too few to be sure.
The components of a heterogeneous job keep what they ask for.
""",
    ),
    "other components than those that ran": (
        of_components("-t", "120", "-N1", ":", "-N3"),
        """\
There is no prediction for this layout.

All runs had components of 1 node, 1 CPU + 2 nodes, 2 CPUs, this job has other
components: their run times do not apply.
The components of a heterogeneous job keep what they ask for.

alice/solve, 10 runs.
""",
    ),
    "two types of GPUs": (
        of_gpu_types(),
        """\
About 12 min on 6 nodes (9 of 10 runs: 11 to 13 min); starts at once. Ask for:
#SBATCH --nodes=6
#SBATCH --time=00:17:00

This limit rests on 10 runs: the longest ones may need more.
It ends 2.5 min later than on 8, for 0.056 node-hours less (95 % certain: at
most 2.7 min later).
""",
    ),
    "a faster partition": (
        of_places(),
        """\
About 4.6 min on 5 nodes (9 of 10 runs: 4.1 to 5 min). Ask for:
#SBATCH --partition=fast
#SBATCH --nodes=5
#SBATCH --time=00:07:00

This limit rests on 2 runs: too few to be sure.
This count costs least: wait, run time and the delay of queued jobs.
""",
    ),
    "a faster partition that is doubtful": (
        of_places(Verdict.DOUBTFUL, 0),
        """\
About 12 min on 6 nodes (9 of 10 runs: 11 to 13 min). Ask for:
#SBATCH --partition=slow
#SBATCH --nodes=6
#SBATCH --time=00:17:00

This limit rests on 10 runs: the longest ones may need more.
It ends 2.5 min later than on 8, for 0.056 node-hours less (95 % certain: at
most 2.7 min later).
""",
    ),
    "a partition that the job names": (
        of_places(partition="slow"),
        """\
About 12 min on 6 nodes (9 of 10 runs: 11 to 13 min). Ask for:
#SBATCH --nodes=6
#SBATCH --time=00:17:00

This limit rests on 10 runs: the longest ones may need more.
It ends 2.5 min later than on 8, for 0.056 node-hours less (95 % certain: at
most 2.7 min later).

With --partition=fast it would end 7.1 min sooner, for 0.79 node-hours less.
""",
    ),
}


@pytest.mark.parametrize("situation", ANSWERS)
def test_the_whole_answer_reads_as_people_say_it(situation):
    advice, shown = ANSWERS[situation]
    text = "\n".join(render(advice, now_s=NOW, width=WIDTH)) + "\n"
    before = re.split(r"^ +(?:nodes|CPUs|GPUs|partition) ", text, maxsplit=1, flags=re.M)[0]
    before = re.split(r"^solve, ", before, maxsplit=1, flags=re.M)[0]
    assert before.strip() == shown.strip()
    assert not re.search(SAME_ENDS, text), text
    lines = [line for line in text.splitlines() if not line.startswith("#SBATCH")]
    assert max(map(len, lines)) <= WIDTH
