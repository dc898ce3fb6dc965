"""Runs of ``nimo learn`` as samples of NIMO: which bytes count as their data flow D."""

from collections.abc import Sequence

from predictor.occupancy.application_model import Sample, occupancies
from slurm_plugin.experiments.learn.assignments import INPUT_BYTES
from slurm_plugin.experiments.learn.journal import Trial


def sample(trial: Trial, first: Trial, *, counted: bool, network_share: float) -> Sample | None:
    """Make a sample of a run; None where its data flow is missing and others have theirs.

    Occupancies of runs can be compared only if their data flow means the same.  So the first run
    decides: what the accounting counted, or else the size of the input, or else one byte for all.

    first: the first run that was learned from.
    counted: whether the accounting's bytes mean something.
    network_share: share of the stall that is the network's, where it was not measured.
    """
    data_bytes = _data_bytes(trial, first, counted=counted)
    if not data_bytes:
        return None
    busy = 1.0 if trial.utilisation is None else trial.utilisation
    share = network_share if trial.network_share is None else trial.network_share
    measured = occupancies(busy, max(trial.elapsed_s, 1.0), data_bytes, network_share=share)
    return Sample(trial.attributes, measured)


def samples(trials: Sequence[Trial]) -> list[Sample]:
    """Make samples of all runs that have their data flow."""
    made = (sample(one, trials[0], counted=True, network_share=0.0) for one in trials)
    return [one for one in made if one is not None]


def _data_bytes(trial: Trial, first: Trial, *, counted: bool) -> float | None:
    if not counted:
        return 1.0
    if first.data_bytes:
        return float(trial.data_bytes) if trial.data_bytes else None
    return trial.attributes.get(INPUT_BYTES, 1.0)
