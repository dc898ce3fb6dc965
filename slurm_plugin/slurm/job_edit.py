"""A change to a job that waits, and which of several are offered: pure."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from slurm_plugin.slurm.pending_job import PendingJob

#: A start up to this many seconds from now is one at once; a gain of less is none.
AT_ONCE_S = 90.0
#: Changes of one job that are offered.
MOST_EDITS = 5
_MOST_ALIKE = 2  #: of one field
#: What of a job comes in sizes, the largest first.
_SIZES = frozenset({"TimeLimit", "NumNodes", "MinMemoryCPU", "MinMemoryNode"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """A change to a job that waits."""

    fields: Mapping[str, str] = field(default_factory=dict)  #: of ``scontrol update``
    release: bool = False  #: ``scontrol release``
    what: str  #: "a time limit of 25 min"
    caution: str = ""  #: what it costs: "if it needs no longer"
    job: PendingJob  #: as it would be
    passes: bool = False  #: it lets the job pass others: nothing where no start is known
    start_s: float | None = None  #: None: not known
    gain_s: float | None = None  #: by so much sooner; None: as it is it does not start
    gain_low_s: float | None = None  #: nine in ten are between these; None: by limits alone
    gain_high_s: float | None = None
    chance: float | None = None  #: that it starts sooner at all; None: by limits alone
    agreed: bool = False  #: Slurm takes such a job (``sbatch --test-only``)
    slurm_s: float | None = None  #: when it would start it, by running jobs alone

    @property
    def argv(self) -> tuple[str, ...]:
        """Command that does it; empty: it takes a new submission."""
        if self.release:
            return ("scontrol", "release", self.job.shown_id)
        if not self.fields:
            return ()
        pairs = (f"{name}={value}" for name, value in self.fields.items())
        return ("scontrol", "update", f"JobId={self.job.shown_id}", *pairs)


def offered(edits: Iterable[Edit]) -> list[Edit]:
    """Choose the changes that are offered, the one with the earliest start first.

    Of several sizes the first that is given is taken, unless a later one starts sooner.
    """
    kinds: defaultdict[str, list[Edit]] = defaultdict(list)
    for one in filter(_is_sooner, edits):
        alike = kinds[next(iter(one.fields), one.what)]
        if not any(_as_soon(other, one) for other in alike):
            alike.append(one)
    chosen = [one for alike in kinds.values() for one in sorted(alike, key=_order)[:_MOST_ALIKE]]
    return sorted(chosen, key=_order)[:MOST_EDITS]


def _order(edit: Edit) -> tuple[bool, float, int]:
    return (edit.start_s is None, edit.start_s or 0.0, len(edit.what))


def _as_soon(other: Edit, edit: Edit) -> bool:
    """Whether another size of the same is as soon, so that this one is not needed."""
    if _SIZES.isdisjoint(edit.fields) or other.start_s is None or edit.start_s is None:
        return False
    return other.start_s < edit.start_s + AT_ONCE_S


def _is_sooner(edit: Edit) -> bool:
    """Whether a change is worth it: by the queue run forward, else by limits."""
    if edit.chance is not None:
        return True
    if edit.start_s is None:
        return not edit.passes
    return edit.gain_s is None or edit.gain_s > AT_ONCE_S
