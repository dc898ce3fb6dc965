"""Numbers of tasks, CPUs and GPUs: written only within what the job's own tag asks for."""

import re
from pathlib import Path

import pytest

CPUS = {"script": "#!/bin/sh\n", "comment": "nimo:cpus=4-16", "cpus_per_task": 4}
TASKS = {"script": "#!/bin/sh\n", "comment": "for x nimo:app=a,tasks=8-2", "num_tasks": 2}
GPUS = {"script": "#!/bin/sh\n", "comment": "nimo:gpus=1-4", "tres_per_node": "gres:gpu:a100:1"}


def size(**fields):
    return {"v": 1, "action": "set", "set": fields}


@pytest.mark.parametrize(
    ("job", "change", "environment"),
    [
        (CPUS, {"cpus_per_task": 8, "min_cpus": 8}, {"SLURM_CPUS_PER_TASK": ("4", "8")}),
        (
            TASKS,
            {"num_tasks": 6, "min_cpus": 6},
            {"SLURM_NTASKS": ("2", "6"), "SLURM_NPROCS": ("2", "6")},
        ),
        (
            GPUS,
            {"tres_per_node": "gres:gpu:a100:4", "cpus_per_task": 8, "min_cpus": 8},
            {"SLURM_GPUS_PER_NODE": ("a100:1", "a100:4")},
        ),
    ],
)
def test_a_size_is_written_with_what_goes_with_it(hooks, job, change, environment):
    environment |= {"HOME": ("/root", "/root")}
    hooks.answer(size(**change))
    outcome = hooks.submit(**job, environment={k: old for k, (old, _) in environment.items()})
    assert outcome.job.items() >= change.items()
    assert outcome.environment == {k: new for k, (_, new) in environment.items()}
    assert outcome.log == []


@pytest.mark.parametrize(
    ("job", "change", "why"),
    [
        (CPUS, {"cpus_per_task": 17}, "cpus_per_task is not in the tag"),
        (CPUS, {"cpus_per_task": 3}, "cpus_per_task is not in the tag"),
        (CPUS | {"comment": "nimo:app=x"}, {"cpus_per_task": 8}, "cpus_per_task is not in the tag"),
        (CPUS | {"comment": "xnimo:cpus=4-16"}, {"cpus_per_task": 8}, "is not in the tag"),
        (CPUS | {"script": ""}, {"cpus_per_task": 8}, "its size is not chosen"),
        (CPUS | {"array_inx": "0-9"}, {"cpus_per_task": 8}, "its size is not chosen"),
        (CPUS, {"cpus_per_task": 8, "min_nodes": 2, "max_nodes": 2}, "outside the request"),
        (CPUS, {"cpus_per_task": 8, "min_cpus": 9}, "min_cpus does not fit"),
        (CPUS, {"cpus_per_task": "8"}, "bad cpus_per_task"),
        (TASKS, {"num_tasks": 9}, "num_tasks is not in the tag"),
        (TASKS, {"num_tasks": 4, "ntasks_per_node": 2}, "ntasks_per_node does not fit"),
        (TASKS, {"num_tasks": 4, "cpus_per_task": 2}, "cpus_per_task is not in the tag"),
        (GPUS, {"tres_per_node": "gres:gpu:a100:5"}, "tres_per_node is not in the tag"),
        (GPUS, {"tres_per_node": "gres:gpu:v100:2"}, "tres_per_node is not in the tag"),
        (GPUS, {"tres_per_node": "gres:nic:2"}, "tres_per_node is not in the tag"),
        (GPUS, {"tres_per_node": 2}, "bad tres_per_node"),
        (CPUS, {"tres_per_node": "gres/gpu:2"}, "tres_per_node is not in the tag"),
    ],
)
def test_nothing_else_is_written(hooks, job, change, why):
    hooks.answer(size(**change))
    partitions = {"batch": {"flag_default": 1, "total_nodes": 1}}
    outcome = hooks.submit(partitions=partitions, **job)
    assert outcome.writes == []
    assert why in outcome.log[0]


@pytest.mark.parametrize(("letters", "written"), [(200, True), (300, False)])
def test_what_takes_the_square_of_a_length_is_short(hooks, letters, written):
    kind = f"gres:gpu:{'a' * letters}"
    hooks.answer(size(tres_per_node=f"{kind}:4"))
    outcome = hooks.submit(**GPUS | {"tres_per_node": f"{kind}:1"})
    assert ("tres_per_node" in outcome.writes) is written


def test_no_pattern_is_tried_from_every_place_to_the_end():
    """Where it does not fit, a text of 60 KB would keep slurmctld for seconds."""
    unanchored = re.compile(r"""\b(?:match|find)\(["'](?:\.|%S|\[\^[^]]+\])[*+-]""")
    files = list((Path(__file__).parents[2] / "slurm_plugin" / "lua").glob("*.lua"))
    assert files
    assert not [path for path in files if unanchored.search(path.read_text())]


@pytest.mark.parametrize(
    ("job", "change", "allowed"),
    [
        (CPUS | {"comment": ""}, {"cpus_per_task": 17}, True),
        (CPUS | {"comment": ""}, {"tres_per_node": "gres/gpu:2"}, True),
        (CPUS, {"cpus_per_task": 17}, False),  # what the user says goes first
        (CPUS | {"comment": "", "script": ""}, {"cpus_per_task": 17}, False),
        (GPUS | {"comment": ""}, {"tres_per_node": "gres:gpu:v100:2"}, False),
    ],
)
def test_a_site_may_allow_sizes_without_a_tag(runtime, job, change, allowed):
    for conf, written in (("allow_sizes = yes", allowed), ("", False)):
        hooks = runtime(conf).load()
        hooks.answer(size(**change))
        assert bool(hooks.submit(**job).writes) is written


@pytest.mark.parametrize(
    ("own", "reported"), [("gres:gpu:", "gres/gpu:"), ("gres/gpu:", "gres:gpu:")]
)
def test_gpus_are_written_as_the_job_spells_them(hooks, own, reported):
    """cli_filter and job_submit of a release do not spell them alike."""
    hooks.answer(size(tres_per_node=f"{reported}2"))
    outcome = hooks.submit(**GPUS | {"tres_per_node": f"{own}1"})
    assert (outcome.job["tres_per_node"], outcome.log) == (f"{own}2", [])


EACH_TASK = {
    "script": "#!/bin/sh\n",
    "comment": "nimo:gpus=1-4,cpus=1-8",
    "cpus_per_task": 2,
    "tres_per_task": "cpu=2,gres/gpu:a100=1,license/x=1",
    "tres_bind": "gres/gpu:per_task:1",
}


def test_what_each_task_has_is_written_wherever_the_client_wrote_it(hooks):
    """Since 24.11 sbatch counts them in two more places, which srun reads."""
    change = {"tres_per_task": "cpu=2,gres/gpu:a100=2,license/x=1", "cpus_per_task": 4}
    hooks.answer(size(**change, min_cpus=4))
    variables = {
        "SLURM_TRES_PER_TASK": "cpu=2,gres/gpu:a100=1,license/x=1",
        "SLURM_TRES_BIND": "gres/gpu:per_task:1",
        "SLURM_CPUS_PER_TASK": "2",
    }
    outcome = hooks.submit(**EACH_TASK, environment=variables)
    assert outcome.log == []
    assert outcome.job["tres_per_task"] == "cpu=4,gres/gpu:a100=2,license/x=1"
    assert outcome.job["tres_bind"] == "gres/gpu:per_task:2"
    assert outcome.environment == {
        "SLURM_TRES_PER_TASK": "cpu=4,gres/gpu:a100=2,license/x=1",
        "SLURM_TRES_BIND": "gres/gpu:per_task:2",
        "SLURM_CPUS_PER_TASK": "4",
    }


def test_cpus_alone_leave_the_gpus_of_a_task(hooks):
    hooks.answer(size(cpus_per_task=8, min_cpus=8))
    outcome = hooks.submit(**EACH_TASK)
    assert outcome.job["tres_per_task"] == "cpu=8,gres/gpu:a100=1,license/x=1"
    assert "tres_bind" not in outcome.writes


@pytest.mark.parametrize(
    ("own", "reported"),
    [
        ("gres/gpu:1", "gres/gpu:2,license/x=9"),
        ("gres/gpu:1,gres/gpu:a100:1", "gres/gpu:1,gres/gpu:a100:2"),
        ("cpu=2", "gres/gpu:2"),
        ("", "gres/gpu:2,license/x=9"),
    ],
)
def test_only_the_one_number_of_gpus_differs(hooks, own, reported):
    hooks.answer(size(tres_per_task=reported))
    outcome = hooks.submit(**EACH_TASK | {"tres_per_task": own})
    assert outcome.job.get("tres_per_task") in (own, "gres/gpu:2")
    if own != "gres/gpu:1":
        assert outcome.writes == []
        assert "tres_per_task is not in the tag" in outcome.log[0]
