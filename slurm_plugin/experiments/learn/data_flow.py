"""Runs of ``nimo learn`` as samples of NIMO: which bytes count as their data flow D."""

from collections.abc import Sequence

from msgspec.structs import replace

from predictor.occupancy.active.settings import FunctionForm, Purpose
from predictor.occupancy.application_model import OccupancyFit, OccupancyModel, Sample, occupancies
from predictor.occupancy.linear_form import LinearOccupancyModel
from predictor.occupancy.samples_of_runs import NODES
from slurm_plugin.experiments.learn.assignments import INPUT_BYTES
from slurm_plugin.experiments.learn.journal import ModelChoices, Stage, Trial


def sample(trial: Trial, first: Trial, choices: ModelChoices) -> Sample | None:
    """Make a sample of a run; None where its data flow is missing and others have theirs.

    Occupancies of runs can be compared only if their data flow means the same.  So the first run
    decides: what the accounting counted, or else the size of the input, or else one byte for all.

    first: the first run that was learned from.
    choices: whether the accounting's bytes mean something, and the network's share of the stall
        where it was not measured.
    """
    data_bytes = _data_bytes(trial, first, counted=choices.data_flow)
    if not data_bytes:
        return None
    busy = 1.0 if trial.utilisation is None else trial.utilisation
    share = choices.network_share if trial.network_share is None else trial.network_share
    measured = occupancies(busy, max(trial.elapsed_s, 1.0), data_bytes, network_share=share)
    return Sample(trial.attributes, measured)


def fit(trials: Sequence[Trial], choices: ModelChoices) -> OccupancyFit:
    """Learn from the runs that ended well and have their data flow; those of a test set are none.

    Their node count is an attribute, also where it is the same for all.

    Raises ValueError: there is no such run, or it cannot be learned from.
    """
    done = [
        replace(one, attributes={NODES: float(one.nodes), **one.attributes})
        for one in trials
        if one.stage is Stage.DONE and one.purpose != Purpose.TEST
    ]
    made = [one for trial in done if (one := sample(trial, done[0], choices)) is not None]
    if choices.form is FunctionForm.PAPER:
        return LinearOccupancyModel(faster=choices.faster or frozenset()).fit(made)
    return OccupancyModel(faster=choices.faster).fit(made)


def _data_bytes(trial: Trial, first: Trial, *, counted: bool) -> float | None:
    if not counted:
        return 1.0
    if first.data_bytes:
        return float(trial.data_bytes) if trial.data_bytes else None
    return trial.attributes.get(INPUT_BYTES, 1.0)
