"""Sizes that trainings on GPUs name are learnt together with the number of GPUs."""

import random

import pytest

from tests.slurm_plugin.stored_advice.walk import Ran, advised, fitted, rows

BATCHES, GPUS = (16, 32, 64, 128, 256), (1, 2, 3, 4, 6, 8)


def truth_s(gpus, batch):
    """Seconds of an epoch: a larger batch of each GPU has fewer steps."""
    return 40_000 / (gpus * batch) * (0.5 + batch / 32)


def training(gpus, batch, noise=1.0):
    seconds = round(truth_s(gpus, batch) * noise)
    line = f"sbatch --gpus={gpus} --cpus-per-gpu=8 app.sh --batch-size={batch}"
    return Ran(seconds=seconds, line=line, cpus=8 * gpus, gpus=gpus)


def size(gpus):
    return f"--gpus={gpus}", "--cpus-per-gpu=8"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    rng, made = random.Random(3), tmp_path_factory.mktemp("trainings")
    every = [(n, x) for n in GPUS for x in BATCHES if x != 64]
    ran = [training(n, x, rng.lognormvariate(0, 0.02)) for n, x in rng.sample(every, 12)]
    fitted(made, ran, 'srun train.py "$@"')
    return made


@pytest.mark.parametrize("gpus", GPUS)
def test_a_batch_size_that_never_ran_has_its_run_time_on_each_number_of_gpus(folder, gpus):
    row = rows(folder, *size(gpus), "app.sh", "--batch-size=64")[gpus]
    assert row["time_s"] == pytest.approx(truth_s(gpus, 64), rel=0.2)
    assert row["low_s"] < truth_s(gpus, 64) < row["high_s"]


def test_one_run_of_a_batch_size_moves_its_own_rows_as_far_as_it_was_off(folder, tmp_path):
    slow = [training(4, 64, 1.3)]
    rng = random.Random(3)
    every = [(n, x) for n in GPUS for x in BATCHES if x != 64]
    others = [training(n, x, rng.lognormvariate(0, 0.02)) for n, x in rng.sample(every, 12)]
    fitted(tmp_path, [*others, *slow], 'srun train.py "$@"')
    own = rows(tmp_path, *size(8), "app.sh", "--batch-size=64")
    before = rows(folder, *size(8), "app.sh", "--batch-size=64")
    for gpus in (2, 4, 8):
        assert 1.0 < own[gpus]["time_s"] / before[gpus]["time_s"] < 1.3


def test_without_numbers_that_explain_anything_gpus_are_no_other_layout(tmp_path):
    rng = random.Random(1)
    seconds = [round(600 * rng.lognormvariate(0, 0.5)) for _ in range(12)]
    lines = [f"sbatch --gpus=4 --cpus-per-gpu=8 app.sh data{i}" for i in range(12)]
    ran = [Ran(seconds=s, line=one, cpus=32, gpus=4) for s, one in zip(seconds, lines, strict=True)]
    fitted(tmp_path, ran)
    said = advised(tmp_path, "-v", *size(4), "app.sh", "other")
    assert "All runs had no GPUs" not in said
    assert "low confidence" in said
