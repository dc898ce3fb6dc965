"""Memory: lowered only, of batch jobs, in the words that the job has; all or nothing."""

import pytest

from tests.lua.hooks import Fields

NODE: Fields = {"script": "#!/bin/sh\n", "min_mem_per_node": 4000}
CPU: Fields = {"script": "#!/bin/sh\n", "min_mem_per_cpu": 1000}
DEFAULT: Fields = {"script": "#!/bin/sh\n"}


def memory(**fields: object) -> dict[str, object]:
    return {"v": 1, "action": "set", "set": fields}


@pytest.mark.parametrize(
    ("job", "field"),
    [(NODE, "min_mem_per_node"), (CPU, "min_mem_per_cpu"), (DEFAULT, "min_mem_per_node")],
)
def test_memory_is_lowered(hooks, job, field):
    hooks.answer(memory(**{field: 800}))
    outcome = hooks.submit(**job)
    assert (outcome.job[field], outcome.log) == (800, [])


def test_memory_is_written_last(hooks):
    """What was not set before cannot be taken back."""
    hooks.answer(memory(min_mem_per_node=800, time_limit=10) | {"admin_comment": "NIMO1:x"})
    outcome = hooks.submit(**DEFAULT, time_limit=20)
    assert outcome.writes[-1] == "min_mem_per_node"
    broken = hooks.submit(broken="min_mem_per_node", **DEFAULT, time_limit=20)
    assert (broken.job["time_limit"], broken.job.get("admin_comment")) == (20, None)


@pytest.mark.parametrize(
    ("job", "field", "name"),
    [
        (NODE, "min_mem_per_node", "SLURM_MEM_PER_NODE"),
        (CPU, "min_mem_per_cpu", "SLURM_MEM_PER_CPU"),
    ],
)
def test_the_environment_stays_true(hooks, job, field, name):
    hooks.answer(memory(**{field: 800}))
    assert hooks.submit(**job, environment={name: "9999"}).environment == {name: "800"}
    assert hooks.submit(**job, environment={"HOME": "/"}).environment == {"HOME": "/"}


@pytest.mark.parametrize(
    ("job", "change", "why"),
    [
        (NODE, {"min_mem_per_node": 4000}, "4000 MiB is not allowed"),
        (NODE, {"min_mem_per_node": 4001}, "4001 MiB is not allowed"),
        (NODE, {"min_mem_per_node": 199}, "199 MiB is not allowed"),
        (NODE, {"min_mem_per_node": 0}, "bad min_mem_per_node"),
        (NODE, {"min_mem_per_node": "800"}, "bad min_mem_per_node"),
        (NODE, {"min_mem_per_cpu": 800}, "its memory is not chosen"),
        (NODE, {"min_mem_per_node": 800, "min_mem_per_cpu": 800}, "its memory is not chosen"),
        (NODE | {"min_mem_per_node": 0}, {"min_mem_per_node": 800}, "its memory is not chosen"),
        (NODE | {"script": ""}, {"min_mem_per_node": 800}, "its memory is not chosen"),
        (CPU, {"min_mem_per_node": 800}, "its memory is not chosen"),
        (CPU, {"min_mem_per_cpu": 1000}, "1000 MiB is not allowed"),
        (DEFAULT, {"min_mem_per_cpu": 800}, "its memory is not chosen"),
        (DEFAULT, {"min_mem_per_node": 3000}, "3000 MiB is not allowed"),
        (DEFAULT | {"mem_per_tres": "gres:gpu:9"}, {"min_mem_per_node": 800}, "is not chosen"),
    ],
)
def test_nothing_else_is_written(hooks, job, change, why):
    hooks.answer(memory(**change))
    partitions: Fields = {"batch": {"flag_default": 1, "def_mem_per_node": 3000}}
    outcome = hooks.submit(partitions=partitions, **job)
    assert outcome.writes == []
    assert why in outcome.log[0]


@pytest.mark.parametrize("name", ["SLURM_MEM_PER_GPU", "SLURM_MEM_PER_CPU"])
def test_what_srun_takes_only_one_of_is_left_alone(hooks, name):
    hooks.answer(memory(min_mem_per_node=800))
    outcome = hooks.submit(**DEFAULT, environment={name: "100"})
    assert outcome.writes == []
    assert f"{name} is there" in outcome.log[0]


@pytest.mark.parametrize(("mib", "written"), [(256, True), (255, False)])
def test_memory_has_a_least_where_the_hook_cannot_see_what_the_job_would_have(hooks, mib, written):
    """Its partition has DefMemPerCPU, or it gets all of its node."""
    hooks.answer(memory(min_mem_per_node=mib))
    outcome = hooks.submit(partitions={"batch": {"flag_default": 1}}, **DEFAULT)
    assert bool(outcome.writes) is written
    # A job that names its memory has its own share of it.
    hooks.answer(memory(min_mem_per_node=250))
    assert hooks.submit(**NODE).job["min_mem_per_node"] == 250
