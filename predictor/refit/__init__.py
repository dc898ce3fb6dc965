"""A refit: prediction tables of the identities whose runs changed, made from the store into it."""

from predictor.refit.batches import RefitInput
from predictor.refit.fitting import fits_of, row_of
from predictor.refit.from_store import RefitSummary, refit
from predictor.refit.user_turns import TimeLimit

__all__ = ["RefitInput", "RefitSummary", "TimeLimit", "fits_of", "refit", "row_of"]
