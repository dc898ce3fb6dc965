"""What a model is: hyper-parameters, ``fit(curve)``, and a frozen fit that predicts.

A model's constructor takes hyper-parameters only; data enters at ``fit``.  Nothing is refitted in
place: ``fit`` returns a new frozen dataclass, which predicts.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from predictor.problems import Problem
from predictor.types import Curve, Prediction
from sacct_ingest.errors import ConfigError

M = TypeVar("M", bound=Callable[[], Any])


class TooFewPoints(ValueError):  # noqa: N818 - a noun, as in sacct_ingest.errors
    """The curve has fewer node counts than the model needs."""


class UnknownModel(ConfigError):  # noqa: N818 - as above
    """No model has the name that was asked for."""


class FittedModel(Protocol):
    """What a model learned from one curve; a frozen dataclass of plain values."""

    @property
    def model(self) -> str:
        """Registered name of the model."""

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What the model itself holds against its predictions."""

    def predict(self, nodes: Sequence[int], level: float = 0.9) -> list[Prediction]:
        """Median and interval for one new run at ``level``, for each of ``nodes``.

        Raises ValueError: ``nodes`` has none, or one that is no node count; ``level`` is not
            between 0 and 1.
        """


class Model(Protocol):
    """A way of making fits; instances hold hyper-parameters only."""

    @property
    def min_points(self) -> int:
        """Distinct node counts without which :meth:`fit` raises :class:`TooFewPoints`."""

    def fit(self, curve: Curve) -> FittedModel:
        """Learn from one curve.

        Raises TooFewPoints: the curve has fewer than ``min_points`` node counts.
        """


#: Registered models by their names; :func:`register` adds to them.
MODELS: dict[str, Callable[[], Model]] = {}


def register(name: str) -> Callable[[M], M]:
    """Class decorator: register a model as ``name``."""

    def enter(model: M) -> M:
        if name in MODELS:
            raise ValueError(f"two models are called {name}")
        MODELS[name] = model
        return model

    return enter


def names() -> tuple[str, ...]:
    """Names of all registered models, sorted."""
    return tuple(sorted(MODELS))


def create(name: str) -> Model:
    """Make a model with its default hyper-parameters; ``predictor/models/NAME.py`` may hold it.

    Raises UnknownModel: no model has this name.
    """
    if name not in MODELS:
        with suppress(ModuleNotFoundError):
            import_module(f"predictor.models.{name}")
    if name not in MODELS:
        for module in iter_modules([str(Path(__file__).parent)]):
            import_module(f"predictor.models.{module.name}")
        raise UnknownModel(f"no model is called {name}; there are: {', '.join(names())}")
    return MODELS[name]()


def quantiles(
    fit: FittedModel, nodes: Sequence[int], shares: Sequence[float]
) -> NDArray[np.float64]:
    """Run times in seconds that these shares of new runs stay below, above one half.

    A fit that has more than its intervals has a method of this name.

    Returns numpy.ndarray: a row for each share, a column for each of ``nodes``.
    """
    if (own := getattr(fit, "quantiles", None)) is not None:
        return np.asarray(own(nodes, shares))
    return np.array([[p.high_s for p in fit.predict(nodes, 2 * share - 1)] for share in shares])


def most_informative(fit: FittedModel, candidates: Sequence[int], targets: Sequence[int]) -> int:
    """Which of ``candidates`` to observe next, to improve the prediction of ``targets``.

    That with the widest interval, unless the fit has a method of this name.
    """
    if (own := getattr(fit, "most_informative", None)) is not None:
        return int(own(candidates, targets))
    return max(fit.predict(candidates), key=lambda p: p.high_s / p.low_s).nodes


def need(curve: Curve, points: int) -> None:
    """Raise :class:`TooFewPoints` when ``curve`` has fewer than ``points`` node counts."""
    if len(curve.points) < points:
        raise TooFewPoints(f"{len(curve.points)} node counts, {points} are needed")
