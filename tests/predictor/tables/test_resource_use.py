"""How much of their CPUs and GPUs runs use."""

from dataclasses import replace

import pytest

from predictor.facts import ResourceUse
from predictor.tables.resource_use import resource_uses
from sacct_ingest.records import JobState
from sacct_ingest.runs.layout import Unit
from tests.predictor.tables.test_parts import made
from tests.predictor.tables.test_parts import row as numbered


def using(number, share, *, gpus=0, percent=None):
    """A run of 100 s on four CPUs that used this share of them."""
    run = numbered(number, 1, 100.0)
    return replace(run, cpu_s=share * 400, gpus=gpus or None, gpu_percent=percent)


def test_use_is_cpu_time_over_elapsed_time_and_cpus_with_its_record():
    shares = (0.9, 0.8, 0.85, 0.88, 0.5)
    (use,) = resource_uses([using(i, share) for i, share in enumerate(shares)])
    assert (use.unit, use.share, use.low, use.high) == (Unit.CPUS, 0.85, 0.5, 0.9)
    # The fourth run was between those before it, the fifth was not.
    assert (use.runs, use.predictions, use.inside) == (5, 2, 1)


def test_use_of_gpus_is_a_share_of_those_that_the_run_had():
    runs = [using(i, 0.5, gpus=4, percent=p) for i, p in enumerate((100.0, 200.0, 300.0))]
    of_cpus, of_gpus = resource_uses(runs)
    assert (of_cpus.unit, of_gpus.unit) == (Unit.CPUS, Unit.GPUS)
    assert (of_gpus.low, of_gpus.share, of_gpus.high) == (0.25, 0.5, 0.75)


def test_of_many_runs_the_extreme_ones_are_outside():
    shares = [0.5 + 0.001 * (i % 40) for i in range(38)] + [0.01, 0.99]
    (use,) = resource_uses([using(i, share) for i, share in enumerate(shares)])
    assert 0.49 < use.low < use.share < use.high < 0.55


def test_less_than_a_percent_is_no_other_use():
    (use,) = resource_uses([using(i, share) for i, share in enumerate((0.9, 0.9, 0.9, 0.898))])
    assert (use.predictions, use.inside) == (1, 1)


def test_what_the_accounting_does_not_say_is_left_out():
    silent = replace(using(1, 0.5), cpu_s=None)
    failed = replace(using(2, 0.5), state=JobState.FAILED)
    assert resource_uses([silent, failed]) == ()
    (table,) = made([replace(using(i, 0.6), nodes=1 + i % 2) for i in range(6)])
    (use,) = table.uses
    assert isinstance(use, ResourceUse)
    assert use.share == pytest.approx(0.6)


def test_cpus_that_came_with_memory_are_not_unused():
    runs = [replace(using(i, 0.5), cpus=16, req_cpus=2, tasks=1, cpu_s=180.0) for i in range(4)]
    (table,) = made(runs)
    assert table.uses[0].share == pytest.approx(0.9)
