"""An average over many shapes of scaling, each as credible as the observations make it."""

from predictor.models.averaged.model import Averaged

__all__ = ["Averaged"]
