"""The assignments that a run can be given."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from predictor.checks import need_positive

#: Attributes of an assignment (ρ and λ), all above zero.
Assignment = Mapping[str, float]
Key = tuple[float, ...]
#: Assignments that are looked at before each run: more would take longer than the runs.
MOST_CANDIDATES = 100_000


@dataclass(frozen=True, slots=True)
class Space:
    """Assignments that can be had.

    ``more_is_better`` says for each attribute whether a larger value makes runs faster (processor
    speed) or slower (latency).

    Raises ValueError: there is no assignment, or none differs; one is given twice, lacks an
        attribute, or has one that is not above zero and finite.
    """

    candidates: tuple[dict[str, float], ...]
    more_is_better: dict[str, bool]

    def __post_init__(self) -> None:
        if not self.candidates or not self.more_is_better:
            raise ValueError("there is no assignment, or no attribute, to learn on")
        for one in self.candidates:
            for name in self.more_is_better:
                need_positive(f"attribute {name} of an assignment", one.get(name))
        keys = [self.key(one) for one in self.candidates]
        if len(set(keys)) < len(keys):
            twice = next(key for i, key in enumerate(keys) if key in keys[:i])
            raise ValueError(f"the assignment {twice} is given twice")

    @classmethod
    def full(
        cls, levels: Mapping[str, Sequence[float]], more_is_better: Mapping[str, bool]
    ) -> "Space":
        """All combinations of the levels of each attribute.

        Raises ValueError: there are more than :data:`MOST_CANDIDATES`, or see :class:`Space`.
        """
        if (count := prod(map(len, levels.values()))) > MOST_CANDIDATES:
            raise ValueError(
                f"{count} assignments are more than {MOST_CANDIDATES}: give fewer levels or "
                "attributes"
            )
        names = list(levels)
        made = (dict(zip(names, one, strict=True)) for one in product(*levels.values()))
        return cls(tuple(made), dict(more_is_better))

    @property
    def attributes(self) -> tuple[str, ...]:
        """Names of the attributes."""
        return tuple(self.more_is_better)

    def levels(self, attribute: str) -> list[float]:
        """Distinct values of an attribute, rising."""
        return sorted({one[attribute] for one in self.candidates})

    def key(self, assignment: Assignment) -> Key:
        """Values of an assignment in the order of the attributes."""
        return tuple(assignment[name] for name in self.attributes)

    def nearest(self, target: Assignment) -> dict[str, float]:
        """Candidate closest to the requested one, each attribute measured by its range."""
        spans = {n: (self.levels(n)[-1] - self.levels(n)[0]) or 1.0 for n in self.attributes}

        def distance(one: Assignment) -> float:
            return sum(((one[n] - target[n]) / spans[n]) ** 2 for n in self.attributes)

        return min(self.candidates, key=distance)

    def corner(self, *, best: bool) -> dict[str, float]:
        """Candidate nearest to the best (or worst) value of every attribute."""
        corner = {
            name: self.levels(name)[-1 if more == best else 0]
            for name, more in self.more_is_better.items()
        }
        return self.nearest(corner)
