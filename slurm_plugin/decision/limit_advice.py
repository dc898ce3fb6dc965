"""Time limits that advice names: from the first run on, and whatever the job asks for now."""

from dataclasses import dataclass
from math import inf

from predictor.application.request import for_request
from predictor.job_table import is_otherwise, of_all_limits
from predictor.prediction_table import PredictionTable
from predictor.table import at, covers, level_quantile, longest, quantile, starts_at
from sacct_ingest.records import JobState
from sacct_ingest.runs.submission import JobKind
from sacct_ingest.text.durations import duration_text, slurm_time
from slurm_plugin.config.setting_types import TimeUse
from slurm_plugin.decision import messages, policy
from slurm_plugin.decision.allowed_counts import PolicySettings, asked_limit_of, trusted
from slurm_plugin.decision.node_options import Option
from slurm_plugin.decision.request import Request
from slurm_plugin.decision.situation import Situation
from slurm_plugin.decision.time_limits import (
    TimeLimits,
    floors,
    is_worthwhile,
    limits_on,
    whole_minutes,
)
from slurm_plugin.slurm.supply import Supply
from slurm_plugin.text.formatting import count, short_clock

#: A later start that is worth a sentence, seconds.
_LATER_S = 300.0
#: Finished runs that say little of how long the longest take.
_FEW = 10


@dataclass(frozen=True, slots=True)
class LimitBasis:
    """What the time limits of an advice follow from: none of it depends on the job's own limit.

    table: of one job; ``any_limit``: the same of jobs with any time limit.
    """

    request: Request
    table: PredictionTable
    any_limit: PredictionTable
    rules: PolicySettings
    most_s: float  #: longest limit of the partition

    @property
    def own_s(self) -> float:
        """Time limit that the job asks for, seconds."""
        return self.request.asked_limit_s or self.request.limit_s or inf

    @property
    def asked_s(self) -> float:
        """Time limit that such jobs ask for, as far as it is known."""
        return self.table.asked_limit_s or self.request.asked_limit_s or 0.0

    def supported(self, nodes: int) -> bool:
        """Whether runs say how long the longest take, as what changes a job has to rest on."""
        share = self.rules.time_limit.quantile
        known = quantile(self.any_limit, nodes, share) is not None
        return known and bool(trusted(self.table, [nodes]))

    def on(self, nodes: int) -> TimeLimits | None:
        """Limit that holds such runs on a count; None: so many were cut off that none is known."""
        table = self.any_limit
        rules = self.rules
        time_s = quantile if self.supported(nodes) else level_quantile
        asked = asked_limit_of(self.request)
        (made,) = limits_on(table, [nodes], rules.time_limit, asked, self.asked_s, time_s)
        if made is None or at(table, nodes).unbounded:
            return None
        ended = table.limit_reached
        limit_s = max(made.limit_s, self.least_s(nodes))
        if ended and ended.state == JobState.TIMEOUT and ended.limit < at(table, nodes).high_s:
            limit_s = max(limit_s, messages.beyond_reached(ended, ended.limit))
        least_s = made.least_s if self.supported(nodes) else None
        return TimeLimits(min(limit_s, self.most_s), least_s)

    def least_s(self, nodes: int) -> float:
        """Limit that a run may need: a shorter one becomes longer.

        No more than any start ran, but on fewer nodes than asked for: see `CountQuestion.limit`.
        """
        table = self.any_limit
        share = self.rules.time_limit.quantile
        one = starts_at(table, nodes)
        high_s = at(table, nodes).high_s
        started_s = (one.end_s(share) or 0.0) if one else 0.0
        seen_s = longest(table, nodes) or inf if nodes >= table.asked else inf
        needed_s = max(min(high_s, seen_s), started_s)
        return whole_minutes(needed_s * self.rules.policy.limit_margin)

    @property
    def speaks(self) -> bool:
        """Whether runs are of this work, and nothing else decides on its limit."""
        request = self.request
        elsewhere = request.deadline_s or request.distrusted or request.time_use is TimeUse.OFF
        return not (elsewhere or self.table.is_guess or is_otherwise(self.table))

    def to_ask(self, nodes: int) -> TimeLimits | None:
        """Limit to ask for: a shorter one, or a longer one that a run needs; None: its own does."""
        limits = self.on(nodes) if covers(self.any_limit, nodes) else None
        if limits is None or limits.limit_s == self.own_s:
            return None
        too_short = self._is_too_short(nodes)
        longer = too_short and self.least_s(nodes) <= self.most_s
        return limits if longer or is_worthwhile(limits.limit_s, self.own_s) else None

    def keeps(self, nodes: int) -> bool:
        """Whether the limit that the job asks for does for a run, and no better one is known."""
        if self.own_s == inf or not self.speaks or not covers(self.any_limit, nodes):
            return False
        if self.on(nodes) is None or self._is_too_short(nodes):
            return False
        return self.to_ask(nodes) is None

    def _is_too_short(self, nodes: int) -> bool:
        """Whether a run may need more than the job asks for."""
        least_s = self.least_s(nodes)
        fewer = nodes < self.table.asked
        return self.own_s < (least_s if fewer else min(least_s, at(self.table, nodes).high_s))

    def text(self, nodes: int, limits: TimeLimits) -> str:
        """Say how sure a limit is, and what keeps it from being shorter."""
        table = self.any_limit
        limit = slurm_time(limits.limit_s)
        texts = []
        if not self.supported(nodes):
            few = table.runs < _FEW
            how = "too few to be sure" if few else "the longest ones may need more"
            texts.append(f"This limit rests on {count(table.runs, 'run')}: {how}.")
        if limits.limit_s < self.own_s:
            known = floors(table, nodes, self.rules.time_limit, self.asked_s)
            binding = [bound for bound in known if bound.limit_s == limits.limit_s]
            texts += [f"No less than {limit}: {bound.text()}." for bound in binding[:1]]
        if 0 < self.table.asked_limit_s < self.own_s < inf:
            most = duration_text(self.table.asked_limit_s)
            texts.append(f"Its last runs asked for {most} at most: a larger problem takes longer.")
        return " ".join(filter(None, texts))


def basis_of(case: Situation, decided: policy.Decision, table: PredictionTable) -> LimitBasis:
    """Give what the limits of a job follow from."""
    request = case.request
    longest_s = case.supply.longest_s if case.supply else None
    any_limit = of_all_limits(case.table or table)
    if decided.request is not None:
        any_limit = for_request(any_limit, decided.request.nodes, request.given)
    return LimitBasis(request, table, any_limit, case.rules, longest_s or inf)


def reservation_text(
    case: Situation, supply: Supply | None, nodes: int, own_s: float, limits: TimeLimits
) -> str:
    """Say that its own time limit keeps a job behind a reservation that the advised one does not.

    supply: what the partition has; None: its queue is not known.
    own_s: time limit that the job asks for, seconds.
    """
    part = case.partition
    if part is None or supply is None or own_s == inf:
        return ""
    begin_s = max(case.now_s, case.request.begin_s)
    if not begin_s + limits.limit_s <= part.reserved_s < begin_s + own_s:
        return ""
    times = {"now_s": case.now_s, "begin_s": case.request.begin_s}
    wait_s = supply.wait(nodes, limits.limit_s, **times).median_s
    later_s = supply.wait(nodes, own_s, **times).median_s - wait_s
    if not _LATER_S <= later_s < inf:
        return ""
    own = duration_text(own_s)
    begins = short_clock(part.reserved_s)
    return (
        f"With its time limit of {own} it would start {duration_text(later_s)} later: after the "
        f"reservation that begins {begins}."
    )


def limits_to_ask(option: Option, basis: LimitBasis) -> TimeLimits | None:
    """Time limit to ask for on a count of the advice."""
    if basis.table.kind is not JobKind.WORK:
        return None
    return (
        basis.to_ask(option.nodes) if basis.speaks else policy.limits_to_ask(option, basis.request)
    )
