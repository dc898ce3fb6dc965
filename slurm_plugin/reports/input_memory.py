"""How the memory of an application goes by its input files, as an engine's expression has it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from predictor.tables.memory_need import memory_need
from sacct_ingest.runs.input_sizes import BYTES
from sacct_ingest.runs.reading import submission_of
from sacct_ingest.store import RunRow

#: What Snakemake counts input files in, bytes.
MIB = 2**20
_SAYS_NOTHING = submission_of(name="", comment="", submit_line="", work_dir="")


@dataclass(frozen=True, slots=True, kw_only=True)
class InputMemory:
    """Memory that is enough for a new run, bytes: a part that is fixed, and one by its input."""

    fixed_bytes: float
    grown_bytes: float  #: for an input of one MiB
    power: float  #: by which the second part goes
    least_bytes: float  #: for the smallest input that was seen
    predictions: int  #: runs that were judged by those before them ...
    inside: int  #: ... and for how many of them it would have been enough

    def bytes_for(self, input_mib: float) -> float:
        """Give the memory for an input."""
        grown: float = self.grown_bytes * input_mib**self.power
        return max(self.least_bytes, self.fixed_bytes + grown)


def input_memory(rows: Sequence[RunRow], fewest: int) -> InputMemory | None:
    """Work out how memory goes by input; None: not surely, or not by the bytes of inputs alone.

    rows: runs of one application, the newest last; those without sizes of inputs are left out.
    fewest: runs that it rests on, at least.
    """
    sized = [
        # An expression knows no other size that a job may name.
        replace(row, submission=_SAYS_NOTHING, array_task_id=None, inputs=f"1K={size:.0f}")
        for row in rows
        if row.nodes == 1 and (size := row.numbers.get(BYTES))
    ]
    if len(sized) < fewest:
        return None
    need = memory_need(sized, margin=1.0, sized=True)
    if need is None or not need.sized or [term.name for term in need.terms] != [BYTES]:
        return None
    (term,) = need.terms
    room = float(need.sized[0].mem_bytes)
    return InputMemory(
        fixed_bytes=room * term.fixed,
        grown_bytes=room * (1 - term.fixed) * (MIB / term.reference) ** term.power,
        power=term.power,
        least_bytes=room * term.factor(term.low),
        predictions=need.predictions,
        inside=need.inside,
    )
