"""What a stored run says of itself."""

from dataclasses import replace

import pytest

from tests.predictor.rows import row

#: Sixteen CPUs, of which four were asked for.
MORE = replace(row(1, 100.0), cpus=16, req_cpus=4, cpu_s=380.0, tasks=1)


def test_cpus_that_slurm_added_for_memory_do_not_count():
    assert MORE.without_added_cpus() == replace(MORE, cpus=4)


@pytest.mark.parametrize(
    "changes",
    [
        {"cpu_s": 1500.0},  # it used them
        {"cpu_s": 380.0, "tasks": 16},
        {"cpu_s": None},
        {"req_cpus": None},
        {"req_cpus": 16},
        {"req_cpus": 15},  # a core was filled
        {"req_cpus": 8, "tasks": 8},
    ],
)
def test_other_cpus_count(changes):
    other = replace(MORE, **changes)  # type: ignore[arg-type]
    assert other.without_added_cpus() is other


def test_types_of_gpus():
    assert replace(MORE, gpu_types="a100=3,v100=1").gpu_type == "a100+v100"
    assert MORE.gpu_type == ""
