"""One application on a site of its own: runs and decisions in a store, refits, and decisions.

Ingest, refit and decision are the product's; what is made up is the cluster.  The wait on n nodes
is q n/N T(n), and given to the decision.
"""

import csv
import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np

from predictor.prediction_table import PredictionTable
from predictor.refit import RefitInput, fits_of
from predictor.stored_table import acting_of, decode
from predictor.waits.estimate import WaitEstimate
from sacct_ingest.job_run import JobRun
from sacct_ingest.records import DecisionRow, JobState, KeyLevel
from sacct_ingest.store import Store
from slurm_plugin.config.settings import Deadline, Policy
from slurm_plugin.decision.allowed_counts import PolicySettings
from slurm_plugin.decision.policy import Action, Decision, decide
from slurm_plugin.decision.request import Request
from slurm_plugin.decision.situation import Situation
from slurm_plugin.slurm.cluster_state import Partition
from slurm_plugin.slurm.node_pool import NodeShare, profile

START_S = 1_790_000_000
#: Median run time of a curve, seconds: sacct counts whole ones.
TYPICAL_S = 3600.0
#: No price besides the wait, and no share of the free nodes that a job may not grow beyond.
RULES = PolicySettings(Policy(price=1e-9, growth_share=1.0), Deadline())
GUARD = RULES.policy
#: A refit follows each of the first jobs, and then each fifth.
_EACH, _EVERY = 12, 5

Curve = Mapping[int, float]


def curves(path: Path, *, least: int = 5, span: float = 1.0) -> list[Curve]:
    """Median run time by count of each problem on each system that has so many counts."""
    times: defaultdict[tuple[str, ...], defaultdict[int, list[float]]] = defaultdict(
        lambda: defaultdict(list)
    )
    with path.open(newline="") as lines:
        for row in csv.DictReader(lines):
            key = tuple(row[n] for n in ("source_repo", "app", "system", "problem", "unit"))
            if row.get("split", "hidden") == "hidden":
                times[key][int(float(row["n"]))].append(float(row["runtime_s"]))
    made = [{n: median(own) for n, own in sorted(one.items())} for one in times.values()]
    return [one for one in made if len(one) >= least and max(one) >= span * min(one)]


def truth(curve: Curve) -> Callable[[float], float]:
    """Run time on any count, log-log between those measured and beyond them, seconds."""
    xs, ys = np.log(list(curve)), np.log(list(curve.values()))
    ys = ys - np.median(ys) + math.log(TYPICAL_S)
    low, high = (ys[1] - ys[0]) / (xs[1] - xs[0]), (ys[-1] - ys[-2]) / (xs[-1] - xs[-2])

    def time_s(n: float) -> float:
        x = math.log(n)
        if x < xs[0]:
            return math.exp(ys[0] + max(-1, min(0, low)) * (x - xs[0]))
        if x > xs[-1]:
            return math.exp(ys[-1] + high * (x - xs[-1]))
        return math.exp(float(np.interp(x, xs, ys)))

    return time_s


@dataclass(frozen=True)
class GivenWaits:
    """Waits as they will be."""

    wait_s: Callable[[int], float]

    def for_share(self, _share: NodeShare, _fitting: int, _user: str = "") -> "GivenWaits":
        """Give the same for all."""
        return self

    def wait(self, nodes: int, _limit_s: float) -> WaitEstimate:
        """Give the one wait that there is."""
        return WaitEstimate((self.wait_s(nodes),), recorded=1000)

    def arriving(self, _span_s: float, _level: float) -> float:
        """Give no demand of others."""
        return 0.0


class Application:
    """Its runs so far, and the table that the last refit made of them."""

    def __init__(self, nodes: int) -> None:
        self._store, self._nodes, self._jobs = Store.open("sqlite://"), nodes, 0
        self.table: PredictionTable | None = None
        self._tries = False  #: a try is not fitted yet: there is one at a time

    def decide(
        self,
        low: int,
        high: int,
        asked: int,
        given: tuple[int, int],
        wait_s: Callable[[int], float],
    ) -> Decision | None:
        """Decide on a job that may have some counts; None: nothing is known yet."""
        if self.table is None:
            return None
        now_s = float(self._now_s())
        part = Partition(
            name="batch",
            nodes=self._nodes,
            profile=profile([(now_s, self._nodes)]),
            outlook=GivenWaits(wait_s),
        )
        request = Request(low=low, high=high, asked=asked, given=given, explore=not self._tries)
        return decide(Situation(request, self.table, part.supply, RULES, now_s))

    def ran(
        self,
        nodes: int,
        time_s: float,
        given: tuple[int, int],
        asked: int,
        *,
        decided: Decision | None = None,
        mem_bytes: int = 1 << 30,
    ) -> None:
        """Note a run, and the decision on its job.

        mem_bytes: of all tasks, one on each node; ranks spin, so CPU time is nodes times run time.
        """
        self._jobs += 1
        self._tries = self._tries or (decided is not None and decided.learns is not None)
        number, end_s = self._jobs, self._now_s()
        changed = decided is not None and decided.action is Action.SET and nodes != asked
        id_ = f"{number:012x}"
        run = JobRun(
            cluster="made",
            job_id=number,
            submit_s=end_s - 86_400,
            state=JobState.COMPLETED,
            user="ann",
            name="app",
            partition="batch",
            start_s=end_s - round(time_s),
            end_s=end_s,
            elapsed_s=max(round(time_s), 1),
            nodes=nodes,
            cpus=nodes,
            tasks=nodes,
            cpu_s=nodes * time_s,
            mem_bytes=mem_bytes // nodes,
            submit_line=f"sbatch -N {given[0]}-{given[1]} run.sh",
            work_dir="/home/ann",
            admin_comment=f"NIMO1:{id_}:",
        )
        row = DecisionRow(
            decision_id=id_,
            cluster="made",
            at_s=float(run.submit_s),
            action="set" if changed else "keep",
            reason=decided.reason.value if decided else "unknown_application",
            min_nodes=given[0],
            max_nodes=given[1],
            requested_nodes=asked,
            nodes=nodes,
            applied=changed,
            request_predicted_s=time_s if decided else None,
        )
        self._store.runs.add([run])
        if decided is not None:
            self._store.decisions.add([row])

    def refit(self, *, job: int = 0) -> None:
        """Make the table anew, where it is time for that."""
        if job > _EACH and job % _EVERY:
            return
        self._store.decisions.join_outcomes()
        made = fits_of(
            RefitInput(
                lambda level: self._store.runs.by_key(level) if level is KeyLevel.LINE else ()
            ),
            now_s=float(self._now_s()),
        )
        self.table = acting_of(decode(made[0].payload)) if made else None
        self._tries = False

    def _now_s(self) -> int:
        return START_S + 100_000 * self._jobs


@dataclass(frozen=True, slots=True)
class Outcome:
    """A job's cost over the least, and over that of its request; costs are turnarounds."""

    cost: float
    over_asked: float
    kept: bool  #: its turnaround stayed within the guard
    changed: bool
    learned: bool  #: it was a try


def outcome(
    costs_s: Mapping[int, float], nodes: int, asked: int, *, learned: bool = False
) -> Outcome:
    """Hold a count against the others.

    costs_s: turnaround on each count that the job may have.
    """
    own, base = costs_s[nodes], costs_s[asked]
    return Outcome(
        own / min(costs_s.values()),
        own / base,
        own <= GUARD.guard_ratio * base + GUARD.guard_s,
        nodes != asked,
        learned,
    )


def figures(
    applications: Sequence[Sequence[Outcome]], last: str, count: int
) -> dict[str, float | None]:
    """Means over applications, and of the last jobs of each; shares in percent.

    Tries promise `explore_ratio` and no guard: they have a share of their own.
    """
    lasts = [float(np.mean([one.cost for one in own[-count:]])) for own in applications]
    worse = [one.over_asked > 1.25 for own in applications for one in own[-count:]]
    changed = [one for own in applications for one in own if one.changed]
    promised = [one.kept for one in changed if not one.learned]
    return {
        "mean": float(np.mean([one.cost for own in applications for one in own])),
        last: float(np.mean(lasts)),
        "p90": float(np.quantile(lasts, 0.9)),
        "worse 25 %": 100 * float(np.mean(worse)),
        "guard kept %": 100 * float(np.mean(promised)) if promised else None,
        "with tries %": 100 * float(np.mean([one.kept for one in changed])) if changed else None,
        "tries": float(np.mean([sum(one.learned for one in own) for own in applications])),
    }
