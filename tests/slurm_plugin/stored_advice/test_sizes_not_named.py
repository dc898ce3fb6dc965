"""A job without the size that its application's run times depend on."""

import random

from tests.slurm_plugin.stored_advice.walk import Ran, advised, fitted


def test_a_variable_that_is_not_set_is_named_and_the_prediction_doubtful(tmp_path):
    rng = random.Random(1)
    ran = [
        Ran(
            seconds=round((60 + 0.6 * steps) * rng.lognormvariate(0, 0.03)),
            line=f"sbatch --export=ALL,STEPS={steps} app.sh",
        )
        for steps in (500, 1000, 2000, 4000) * 3
    ]
    fitted(tmp_path, ran)
    said = "The job does not name STEPS, by which run times go: all that ran count."
    every = " ".join(advised(tmp_path, "-v", "app.sh").split())
    assert every.count(said) == 1
    # Also where other sentences, of its limit and its options, take the place.
    unset = " ".join(advised(tmp_path, "-c", "8", "-t", "10:00:00", "app.sh").split())
    assert unset.count(said) == 1
    assert "doubtful" in unset.partition("Ask for")[0]
    named = advised(tmp_path, "-v", "--export=ALL,STEPS=3000", "app.sh")
    assert "does not name" not in " ".join(named.split())
