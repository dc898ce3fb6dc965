"""Looking for the best plan: exactly where the workflow is small, else by good rules.

A plan is better than another if it misses the target by less; then, if it takes fewer node-hours;
then, if it ends earlier.  With the moment of planning as its target it is the fastest plan, with
none the cheapest, and with a deadline the cheapest of those that keep it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from slurm_plugin.experiments.plan.options import Choices, OptionChoice, at_one_place, next_option
from slurm_plugin.experiments.plan.schedule import Board, PlanningProblem, PlanSchedule, Step, build
from slurm_plugin.experiments.plan.workflow import Task

#: What comes first decides: seconds late, node-seconds, end.
Score = tuple[float, float, float]
#: Tasks placed in the exact search, and to improve a plan, until that is given up.
MOST_PLACED, EFFORT = 30_000, 40_000
_SMALL = 8  #: most tasks for which the exact search is tried
_GRAIN_S = 1e-6  #: times that differ by less are the same


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The best schedule found; ``proven`` if there is no better one."""

    schedule: PlanSchedule
    proven: bool = False


def score(schedule: PlanSchedule, target_s: float) -> Score:
    """Rank of a schedule: the lower the better."""
    late = max(0.0, schedule.end_s - target_s)
    return round(late / _GRAIN_S), round(schedule.node_s / _GRAIN_S), schedule.end_s


def search(
    problem: PlanningProblem, all_of: Choices, target_s: float, *, effort: int = EFFORT
) -> SearchResult | None:
    """Find the best plan for a target; None where there is no plan.

    problem: the workflow, and the estimates of its steps.
    all_of: what may be chosen for each task.
    target_s: when it should have ended, seconds since the epoch; inf: whenever.
    effort: tasks placed to improve the plan of a workflow too large for the exact search.
    """
    if not all_of:
        return None
    best = heuristic(problem, all_of, target_s, effort=effort)
    if len(all_of) > _SMALL:
        return SearchResult(best) if best else None
    return exact(problem, all_of, target_s, best)


def exact(
    problem: PlanningProblem, all_of: Choices, target_s: float, best: PlanSchedule | None = None
) -> SearchResult | None:
    """Branch and bound over all orders and all choices, as long as that is feasible."""
    tree = _Tree(problem, all_of, target_s, best)
    tree.visit(Board(problem))
    return SearchResult(tree.best, proven=tree.left > 0) if tree.best else None


def heuristic(
    problem: PlanningProblem, all_of: Choices, target_s: float, *, effort: int = EFFORT
) -> PlanSchedule | None:
    """Take the best of several starts and improve it step by step.

    The starts are everything on its cheapest and on its fastest option, HEFT (each task where it
    ends first; Topcuoglu and others, 2002), and from the cheapest on more nodes for the task of the
    critical path that they help most (after CPA; Radulescu and van Gemund, 2001).
    """
    work = _Work(problem, all_of, target_s, effort)
    cheapest = {task: min(own, key=lambda one: one.node_s) for task, own in all_of.items()}
    fastest = {task: min(own, key=lambda one: one.time_s) for task, own in all_of.items()}
    work.best(fixed(problem, all_of, cheapest))
    work.best(fixed(problem, all_of, fastest))
    work.best(heft(problem, all_of))
    for alone in at_one_place(all_of):
        work.best(fixed(problem, all_of, alone))
    work.grow(cheapest)
    return work.improved()


def heft(problem: PlanningProblem, all_of: Choices) -> PlanSchedule | None:
    """Plan in which each task, by its upward rank, takes the option with which it ends first."""
    mean = {task: sum(c.time_s for c in own) / len(own) for task, own in all_of.items()}
    board = Board(problem)
    for name in ranked(problem, mean):
        task = problem.workflow.tasks[name]
        drafts = (
            (drafted, one.option)
            for one in all_of[name]
            if (drafted := board.draft(task, one.option)) is not None
        )
        first = min(drafts, key=lambda pair: _ends(pair[0], name), default=None)
        if first is None:
            return None
        board.commit(task, first[1], first[0])
    return board.schedule()


def ranked(problem: PlanningProblem, time_s: Mapping[str, float]) -> list[str]:
    """Tasks by the longest way from their start to the end: what is critical comes first."""
    flow = problem.workflow
    rank: dict[str, float] = {}
    for name in reversed(tuple(flow.tasks)):
        if name in time_s:
            rank[name] = time_s[name] + max((rank[one] for one in flow.behind[name]), default=0.0)
    place = {name: i for i, name in enumerate(flow.tasks)}
    # A task never ranks before one that it needs: run times are above zero.
    return sorted(rank, key=lambda name: (-rank[name], place[name]))


def critical(schedule: PlanSchedule) -> list[Step]:
    """Follow the steps that the end of a schedule depends on, from the first to the last.

    Each waits for the one before: for its data, or for the nodes that it leaves.
    """
    by_name = {step.name: step for step in schedule.steps}
    by_pool: dict[str, list[Step]] = {}
    for one in schedule.steps:
        by_pool.setdefault(one.pool, []).append(one)
    path: list[Step] = []
    step: Step | None = max(schedule.steps, key=lambda one: one.end_s, default=None)
    while step is not None:
        path.append(step)
        step = _holds_up(step, by_name, by_pool)
    return path[::-1]


def _holds_up(
    step: Step, by_name: Mapping[str, Step], by_pool: Mapping[str, Sequence[Step]]
) -> Step | None:
    if step.wait_s > _GRAIN_S:
        for other in by_pool[step.pool]:
            if abs(other.end_s - step.start_s) < _GRAIN_S and other is not step:
                return other
    needed = [by_name[name] for name in step.needs]
    return max(needed, key=lambda one: one.end_s, default=None)


def _ends(drafted: Sequence[Step], name: str) -> tuple[float, float]:
    run = next(step for step in drafted if step.name == name)
    return run.end_s, run.node_s


def fixed(
    problem: PlanningProblem, all_of: Choices, chosen: Mapping[str, OptionChoice]
) -> PlanSchedule | None:
    """Schedule of these choices; what is not possible there is placed where it is first done."""
    order = ranked(problem, {task: one.time_s for task, one in chosen.items()})
    options = {task: one.option for task, one in chosen.items()}
    others = {task: (one.option for one in own) for task, own in all_of.items()}
    return build(problem, order, options, others)


class _Work:
    """Search from one plan to the next, with an end to the work."""

    def __init__(
        self, problem: PlanningProblem, all_of: Choices, target_s: float, effort: int
    ) -> None:
        self._problem = problem
        self._all_of = all_of
        self._target_s = target_s
        self._best: PlanSchedule | None = None
        self._left = effort
        self._by_option = {task: {c.option: c for c in own} for task, own in all_of.items()}

    def best(self, made: PlanSchedule | None) -> bool:
        """Keep a schedule if it is the best; return whether it is."""
        if made is None:
            return False
        target_s = self._target_s
        better = self._best is None or score(made, target_s) < score(self._best, target_s)
        if better:
            self._best = made
        return better

    def grow(self, chosen: dict[str, OptionChoice]) -> None:
        """Give what is critical more, from the cheapest plan on, until that helps no more."""
        chosen = dict(chosen)
        while self._left > 0:
            made = self._tried(chosen)
            self.best(made)
            if made is None or made.end_s <= self._target_s:
                return
            on_path = [step.task for step in critical(made) if step.task in chosen]
            steps = [one for task in dict.fromkeys(on_path) for one in self._more(chosen, task)]
            steps.sort(key=lambda pair: pair[0])
            if not steps:
                return
            for _, task, more in steps[: 1 + len(chosen) // 50]:
                chosen[task] = more

    def improved(self) -> PlanSchedule | None:
        """Change one task after the other as long as the plan becomes better."""
        # Without a target nothing is cheaper than everything on its cheapest option.
        while (best := self._best) is not None and self._left > 0 and self._target_s < inf:
            if not any(self._change(best, tasks) for tasks in self._turns(best)):
                break
        return self._best

    def _turns(self, best: PlanSchedule) -> Iterator[Sequence[str]]:
        """Tasks that are changed together: first many at once where there are many."""

        def saving(task: str) -> float:
            """Node-seconds that the task could take less."""
            own = self._by_option[task]
            return own[best.choices[task]].node_s - min(c.node_s for c in own.values())

        late = best.end_s > self._target_s
        path = dict.fromkeys(s.task for s in critical(best) if s.task in self._all_of)
        tasks = list(path) if late else sorted(self._all_of, key=saving, reverse=True)
        size = max(1, len(tasks) // 4)
        while True:
            for first in range(0, len(tasks), size):
                yield tasks[first : first + size]
            if size == 1:
                return
            size = max(1, size // 4)

    def _change(self, best: PlanSchedule, tasks: Sequence[str]) -> bool:
        """Try other options for these tasks, each the next one in the same direction."""
        if self._left <= 0:
            return False
        by_option = self._by_option
        present = {t: by_option[t][o] for t, o in best.choices.items() if t in by_option}
        if len(tasks) == 1:
            others: list[dict[str, OptionChoice]] = [
                {tasks[0]: one} for one in self._all_of[tasks[0]] if one != present[tasks[0]]
            ]
        else:
            late = best.end_s > self._target_s
            of = self._all_of
            others = [{task: next_option(of[task], present[task], late=late) for task in tasks}]
        return any(self._left > 0 and self.best(self._tried(present | new)) for new in others)

    def _more(
        self, chosen: Mapping[str, OptionChoice], task: str
    ) -> Iterator[tuple[float, str, OptionChoice]]:
        """Faster options of a task, the cheapest for the time gained first."""
        now = chosen[task]
        faster = [one for one in self._all_of[task] if one.time_s < now.time_s]
        priced = [((c.node_s - now.node_s) / (now.time_s - c.time_s), task, c) for c in faster]
        yield from sorted(priced, key=lambda one: (one[0], one[2].time_s))[:1]

    def _tried(self, chosen: Mapping[str, OptionChoice]) -> PlanSchedule | None:
        self._left -= len(chosen)
        return fixed(self._problem, self._all_of, chosen)


class _Tree:
    """Branch and bound: all orders in which tasks may be placed, with all their options."""

    def __init__(
        self, problem: PlanningProblem, all_of: Choices, target_s: float, best: PlanSchedule | None
    ) -> None:
        self.best = best
        self.left = MOST_PLACED
        self._problem = problem
        self._all_of = all_of
        self._target_s = target_s
        self._least_s = {task: min(c.time_s for c in own) for task, own in all_of.items()}
        self._least_node_s = {task: min(c.node_s for c in own) for task, own in all_of.items()}

    def visit(self, board: Board) -> None:
        """Look at all that may come after these steps."""
        open_tasks = [task for task in self._all_of if task not in board.ends]
        if not open_tasks:
            made = board.schedule()
            if self.best is None or score(made, self._target_s) < score(self.best, self._target_s):
                self.best = made
            return
        for name in open_tasks:
            if all(one in board.ends for one in self._problem.workflow.before[name]):
                self._branch(board, self._problem.workflow.tasks[name])

    def _branch(self, board: Board, task: Task) -> None:
        for one in self._all_of[task.name]:
            if self.left <= 0:
                return
            self.left -= 1
            drafted = board.draft(task, one.option)
            if drafted is not None:
                following = board.copy()
                following.commit(task, one.option, drafted)
                if self._promises(following):
                    self.visit(following)

    def _promises(self, board: Board) -> bool:
        """Whether what comes of a board can be better than the best."""
        if self.best is None:
            return True
        late, node_s, end_s = score(self.best, self._target_s)
        rest = sum(cost for task, cost in self._least_node_s.items() if task not in board.ends)
        bound = PlanSchedule((), {}, self._earliest_end(board), board.node_s + rest)
        return score(bound, self._target_s) < (late, node_s, end_s - _GRAIN_S)

    def _earliest_end(self, board: Board) -> float:
        flow = self._problem.workflow
        ends = dict(board.ends)
        for name, least_s in self._least_s.items():
            if name not in ends:
                start_s = max((ends[one] for one in flow.before[name]), default=-inf)
                ends[name] = max(start_s, self._problem.now_s) + least_s
        return max(board.end_s, *ends.values(), self._problem.now_s)
