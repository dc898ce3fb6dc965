"""Runs of one application that differ in a second size: tasks, CPUs or GPUs on each node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from predictor.curve import CurveSettings, build
from predictor.types import Curve, Run
from sacct_ingest.layout import Each, Layout

#: Model of two sizes (`predictor.models.two_sizes`).
TWO_SIZES = "two_sizes"


@dataclass(frozen=True, slots=True)
class OtherSizes:
    """Runs of the other second sizes, beside those of ``each``."""

    each: int
    runs: tuple[tuple[int, tuple[Run, ...]], ...]

    def curve(self, own: Curve, settings: CurveSettings) -> Curve:
        """Curve of these runs' own second size, with those of the others."""
        others = tuple(replace(build(runs, settings), each=k) for k, runs in self.runs)
        return replace(own, each=self.each, others=others)


def second_sizes(layouts: Sequence[Layout]) -> Mapping[Layout, int]:
    """Second size of each of these layouts; empty where they are not told apart by one.

    GPUs of each node, or else its tasks, or else its CPUs.

    >>> list(second_sizes([Layout(4, 4), Layout(8, 8)]).values())
    [4, 8]
    """
    one_kind = {(one.each, one.in_all, one.gpu_type) for one in layouts}
    if len(layouts) < 2 or len(one_kind) > 1 or layouts[0].in_all or layouts[0].each != Each.NODE:
        return {}
    for name in ("gpus", "tasks", "cpus"):
        sizes = [getattr(one, name) or 0 for one in layouts]
        if min(sizes) > 0 and len(set(sizes)) == len(sizes):
            return dict(zip(layouts, sizes, strict=True))
    return {}
