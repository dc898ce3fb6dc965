"""A run as models see it: what models of run time are fitted on."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from predictor.checks import need_finite, need_nodes, need_positive


@dataclass(frozen=True, slots=True)
class Sample:
    """One start of a job as models see it: a sample of its run time.

    Of size and time every model knows.  What was asked for is filled for models of a change of
    count (:mod:`predictor.application.model`), what the request says for models of sizes
    (:mod:`predictor.application.sizes`).

    ``censored`` runs were cut off at ``elapsed_s``: the true run time is longer.

    Raises ValueError: a count is no whole number of 1 or more, the time is not above zero, the end
        is not finite, or the limit or the memory is below zero.
    """

    nodes: int  #: or CPUs or GPUs: what its curve counts
    elapsed_s: float
    end_s: float = 0.0
    censored: bool = False
    limit_s: float = 0.0  #: requested; 0: unknown
    submit_s: float = 0.0  #: 0: unknown
    out_of_time: bool = False  #: its limit or its deadline cut it off
    # What was asked for.
    asked: int = 0  #: count that it would have had without NIMO; 0: not filled
    asked_range: tuple[int, int] = (0, 0)  #: of counts, that its user asked for
    problem: str = ""  #: those with the same text are known to have one problem; empty: not known
    memory_bytes: float = 0.0  #: that all tasks were measured to need; 0: unknown
    # What the request says.
    numbers: Mapping[str, float] = field(default_factory=dict, hash=False)
    requested: tuple[float, ...] = ()  #: nodes, CPUs, tasks, memory
    #: values of those by which its application is split
    attributes: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def submitted_s(self) -> float:
        """When it was submitted; its start where that is unknown."""
        return self.submit_s or self.end_s - self.elapsed_s

    def __post_init__(self) -> None:
        need_nodes((self.nodes, self.asked or self.nodes))
        need_positive("run time in seconds", self.elapsed_s)
        need_finite("end of a run", self.end_s)
        need_finite("time limit in seconds", self.limit_s, least=0)
        need_finite("memory of a problem in bytes", self.memory_bytes, least=0)
