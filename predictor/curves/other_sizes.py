"""Runs of one application that differ in a second size.

Where nodes are counted it is GPUs, tasks or CPUs on each of them.  Where CPUs or GPUs of the whole
job are counted it is how they are laid out: tasks, CPUs for each task or GPU, or nodes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from predictor.curves.from_runs import CurveSettings, build
from predictor.types import Curve, Run

#: Model of two sizes (`predictor.models.two_sizes`).
TWO_SIZES = "two_sizes"


@dataclass(frozen=True, slots=True)
class OtherSizes:
    """Runs of the other second sizes, beside those of ``each``."""

    each: int
    runs: tuple[tuple[int, tuple[Run, ...]], ...]
    in_all: bool = False  #: the first size counts the whole job

    def curve(self, own: Curve, settings: CurveSettings) -> Curve:
        """Curve of these runs' own second size, with those of the others."""
        others = tuple(replace(build(runs, settings), each=k) for k, runs in self.runs)
        return replace(own, each=self.each, others=others, in_all=self.in_all)
