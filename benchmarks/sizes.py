"""Sizes in arguments and node counts learnt together, through the product's ingest, fit and advice.

Each program of each data set is one user's: one script, the sizes in its arguments, a history of 10
to 15 runs.  Asked are new counts of sizes that were run, new sizes, and new sizes on new counts; of
programs without sizes counts that never ran.  Data are those of `_programs.py`.  Peers fit the same
histories: a log-linear regression of four terms, Ernest's form (Venkataraman et al., NSDI 2016) and
gradient boosting.  A choice of counts costs n T^2, over that of the best count of the same sizes.
The product's is that of a job that asks for the largest count: by its table, and for counts that
this leaves out by what is said of a job that asks for them.  Where it says nothing, the job keeps
its count.
"""

import datetime as dt
import io
import json
import math
import random
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import chdir, redirect_stdout
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import fmean, median
from typing import Any
from unittest.mock import patch

import _bench
import numpy as np
from _programs import Program, Sizes, made_up, read_programs
from scipy.optimize import nnls

from slurm_plugin.cli.advise import main as advise
from slurm_plugin.cli.nimo import main as nimo

#: Count, sizes, seconds.
Run = tuple[int, Sizes, float]
Predict = Callable[[int, Sizes], float]
#: Rows that the product advises, by the count and sizes asked for, and by count.
Answers = Mapping[tuple[int, Sizes], Mapping[int, Mapping[str, float]]]

#: Runs of a history, counts of which a choice is scored.
HISTORY, CHOICE = (10, 12, 15), 5
PROTOCOLS = ("new counts", "new sizes", "both")
_HEADER = (
    "JobID|JobIDRaw|Cluster|User|Account|Partition|JobName|SubmitLine|WorkDir|Submit|Eligible|Start|"
    "End|Elapsed|State|ExitCode|NNodes|NCPUS|ReqCPUS|ReqNodes|Timelimit|AllocTRES|NodeList"
)


@dataclass(frozen=True, slots=True)
class Case:
    """One history of a program, and what is asked of it."""

    program: Program
    protocol: str
    user: str
    history: Sequence[Run]
    asked: Sequence[Run]

    def choices(self) -> Iterator[tuple[Sizes, dict[int, float]]]:
        """Give the sizes for which a count is to be chosen, with the run time on each count."""
        if self.protocol == "both":
            return
        for sizes in sorted({sizes for _, sizes, _ in self.asked}):
            times = {n: median(runs) for n, runs in self.program.times[sizes].items()}
            if len(times) >= CHOICE:
                yield sizes, times

    def questions(self) -> list[tuple[int, Sizes]]:
        """List counts and sizes that the product is asked about, each once."""
        asked = [(n, sizes) for n, sizes, _ in self.asked]
        chosen = [(n, sizes) for sizes, times in self.choices() for n in times]
        return list(dict.fromkeys([*asked, *chosen]))


@dataclass(slots=True)
class Score:
    """How one method did under one protocol."""

    errors: list[float] = field(default_factory=list)  #: of each question, as a share
    inside: list[bool] = field(default_factory=list)
    widths: list[float] = field(default_factory=list)  #: high over low
    costs: list[float] = field(default_factory=list)  #: of each choice, over the best

    def figures(self) -> dict[str, Any]:
        """Give the figures of a row."""
        return {
            "MAPE %": 100 * fmean(self.errors),
            "median %": 100 * median(self.errors),
            "choice": fmean(self.costs) if self.costs else None,
            "inside %": 100 * fmean(self.inside) if self.inside else None,
            "high/low": median(self.widths) if self.widths else None,
        }


def main() -> None:
    """Ask each program under each protocol, and print."""
    parser = _bench.options(__doc__)
    parser.add_argument("--data", type=Path, nargs="*", default=[], metavar="FILE")
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="histories of each")
    args = parser.parse_args()
    programs = [one for path in args.data for one in read_programs(path)]
    programs += made_up()
    cases = []
    for seed in range(1 if args.quick else args.seeds):
        for number, program in enumerate(programs):
            cases += cases_of(program, seed, f"u{seed}x{number}")
    scores: defaultdict[tuple[str, str, str], Score] = defaultdict(Score)
    answers = ask(cases)
    for case, of_case in zip(cases, answers, strict=True):
        add(scores, case, of_case)
    table = [
        {"data": source, "asked": protocol, "method": method, **score.figures()}
        for (source, protocol, method), score in sorted(scores.items(), key=_order)
    ]
    _bench.table(table, title=f"Sizes and node counts, {len(cases)} histories")
    _bench.write(args.json, sizes=table)


def _order(item: tuple[tuple[str, str, str], Score]) -> tuple[str, int]:
    return item[0][0], PROTOCOLS.index(item[0][1])


def cases_of(program: Program, seed: int, user: str) -> Iterator[Case]:
    """Part the runs of a program into a history and questions, for each protocol."""
    times = program.times
    sizes = sorted(times)
    counts = sorted({n for own in times.values() for n in own})
    for place, protocol in enumerate(PROTOCOLS if program.names else PROTOCOLS[:1]):
        rng = random.Random(f"{program.name} {seed} {protocol}")
        held_sizes, held_counts = set[Sizes](), set[int]()
        if protocol != "new counts":
            held_sizes = set(rng.sample(sizes, max(len(sizes) // 4, 1)))
        if protocol == "both" or not program.names:
            held_counts = set(rng.sample(counts, max(len(counts) // 4, 1)))
        pool = [
            (n, one, time_s)
            for one in sizes
            if one not in held_sizes
            for n in times[one]
            if n not in held_counts
            # Where one problem is all there is, runs repeat.
            for time_s in (times[one][n] if not program.names else [rng.choice(times[one][n])])
        ]
        rng.shuffle(pool)
        history = pool[: rng.choice(HISTORY)]
        ran = {(n, one) for n, one, _ in history}
        of = {one for _, one, _ in history} if protocol == "new counts" else held_sizes
        asked = [
            (n, one, median(own))
            for one in sorted(of)
            for n, own in sorted(times[one].items())
            if (n, one) not in ran and (not held_counts or n in held_counts)
        ]
        yield Case(program, protocol, f"{user}p{place}", history, asked)


def ask(cases: Sequence[Case]) -> list[Answers]:
    """Give what the product advises for the questions of each case; ingest and fit first."""
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        Path("h.sacct").write_text("\n".join([_HEADER, *_lines(cases)]) + "\n")
        Path("app.sh").write_text('#!/bin/bash\nsrun app "$@"\n')
        with redirect_stdout(io.StringIO()):
            nimo(["ingest", "--store", "s.db", "h.sacct"])
            nimo(["fit", "--store", "s.db"])
        return [_advice(case) for case in cases]


def _lines(cases: Sequence[Case]) -> Iterator[str]:
    number, form = 1000, "%Y-%m-%dT%H:%M:%S"
    for case in cases:
        begin = dt.datetime(2026, 1, 5)  # noqa: DTZ001 - sacct writes local times
        gpus = case.program.gpus
        for count, sizes, time_s in case.history:
            end = begin + dt.timedelta(seconds=int(time_s))
            asked, arguments = _size(case, count), " ".join(_arguments(case.program, sizes))
            line = f"sbatch {asked} -p r4 app.sh {arguments}"
            start, hours = f"{begin:{form}}", int(time_s) // 3600
            elapsed = f"{hours:02}:{int(time_s) % 3600 // 60:02}:{int(time_s) % 60:02}"
            nodes, cpus, name = 1 if gpus else count, 8 * count, f"run-{case.program.name}"
            tres = f"cpu={cpus},node={nodes}" + (f",gres/gpu={count}" if gpus else "")
            yield "|".join(
                map(
                    str,
                    (
                        *(number, number, "c", case.user, "lab", "r4", name, line, "/home/app"),
                        *(start, start, start, f"{end:{form}}", elapsed, "COMPLETED", "0:0"),
                        *(nodes, cpus, cpus, nodes, "08:00:00", tres),
                        f"c[1-{nodes}]",
                    ),
                )
            )
            number += 1
            begin = end + dt.timedelta(minutes=40)


def _arguments(program: Program, sizes: Sizes) -> list[str]:
    if not sizes:  # one problem, which its arguments name
        return [f"--benchmark={program.name}"]
    pairs = zip(program.names, sizes, strict=True)
    return [f"--{name}={size:.10g}" for name, size in pairs]


def _advice(case: Case) -> Answers:
    questions = case.questions()
    lines = [
        json.dumps({"id": i, "argv": [*_options(case, n), "app.sh", *_arguments(case.program, x)]})
        for i, (n, x) in enumerate(questions)
    ]
    output = io.StringIO()
    with redirect_stdout(output), patch("sys.stdin", io.StringIO("\n".join(lines))):
        advise(["--json-lines", "--store", "s.db", f"--user={case.user}"])
    parsed = map(json.loads, output.getvalue().splitlines())
    advice = {answer["id"]: answer.get("advice") or {} for answer in parsed}
    return {
        question: {row["nodes"]: row for row in advice.get(i, {}).get("rows", [])}
        for i, question in enumerate(questions)
    }


def _options(case: Case, count: int) -> list[str]:
    name = f"--job-name=run-{case.program.name}"
    return ["-D", "/home/app", *_size(case, count).split(), "-p", "r4", "-t", "08:00:00", name]


def _size(case: Case, count: int) -> str:
    """Option by which a job asks for a count."""
    return f"--gpus={count} --cpus-per-gpu=8" if case.program.gpus else f"--nodes={count}"


def add(scores: Mapping[tuple[str, str, str], Score], case: Case, answers: Answers) -> None:
    """Score the product and its peers on one case."""

    def of(method: str) -> Score:
        return scores[case.program.source, case.protocol, method]

    for nodes, sizes, time_s in case.asked:
        row = answers[nodes, sizes].get(nodes)
        of("NIMO").errors.append(abs(row["time_s"] / time_s - 1) if row else 1.0)
        of("NIMO").inside.append(row is not None and row["low_s"] <= time_s <= row["high_s"])
        if row:
            of("NIMO").widths.append(row["high_s"] / row["low_s"])
    _choose(of("NIMO"), case, partial(_advised, case, answers))
    for method, fit in PEERS.items():
        predict = fit(case.history)
        score = of(method)
        score.errors += [abs(predict(n, one) / time_s - 1) for n, one, time_s in case.asked]
        _choose(score, case, predict)


def _advised(case: Case, answers: Answers, nodes: int, sizes: Sizes) -> float:
    """Run time that the product names for a count; infinite where it names none."""
    largest = _largest_asked(case, sizes)
    row = answers[largest, sizes].get(nodes) or answers[nodes, sizes].get(nodes)
    return row["time_s"] if row else math.inf


def _largest_asked(case: Case, sizes: Sizes) -> int:
    return max(n for n, asked, _ in case.asked if asked == sizes)


def _choose(score: Score, case: Case, predict: Predict) -> None:
    """Score the choice of a count for each set of sizes that was asked of."""
    for sizes, truth in case.choices():
        costs = {n: n * predict(n, sizes) ** 2 for n in truth}
        chosen = min(costs, key=costs.__getitem__)
        if math.isinf(costs[chosen]):
            chosen = _largest_asked(case, sizes)
        best = min(n * time_s**2 for n, time_s in truth.items())
        score.costs.append(chosen * truth[chosen] ** 2 / best)


def log_linear(history: Sequence[Run]) -> Predict:
    """Regress log run time on the log of the count, its square and the logs of the sizes."""

    def features(nodes: int, sizes: Sizes) -> list[float]:
        return [1.0, math.log(nodes), math.log(nodes) ** 2, *map(math.log, sizes)]

    columns = np.array([features(n, sizes) for n, sizes, _ in history])
    ridge = 1e-3 * np.eye(columns.shape[1])
    ridge[0, 0] = 0.0
    logs = np.log([time_s for *_, time_s in history])
    slopes = np.linalg.solve(columns.T @ columns + ridge, columns.T @ logs)
    return lambda nodes, sizes: math.exp(float(slopes @ features(nodes, sizes)))


def _with(features: Callable[[int, float], list[float]], history: Sequence[Run]) -> Predict:
    """Fit a sum of terms in the count and the first size, none negative, to relative error."""
    largest = max((sizes[0] for _, sizes, _ in history if sizes), default=1.0)

    def share(sizes: Sizes) -> float:
        return sizes[0] / largest if sizes else 1.0

    columns = np.array([features(n, share(sizes)) for n, sizes, _ in history])
    times = np.array([time_s for *_, time_s in history])
    slopes, _ = nnls(columns / times[:, None], np.ones(len(times)))

    def predict(nodes: int, sizes: Sizes) -> float:
        return max(float(slopes @ features(nodes, share(sizes))), 1e-3)

    return predict


def _ernest(nodes: int, size: float) -> list[float]:
    return [1.0, size / nodes, math.log(nodes), float(nodes)]


def boosting(history: Sequence[Run]) -> Predict:
    """Gradient boosting of small trees."""
    from sklearn.ensemble import GradientBoostingRegressor  # noqa: PLC0415

    model = GradientBoostingRegressor(min_samples_leaf=2, random_state=0)
    model.fit([[n, *sizes] for n, sizes, _ in history], np.log([time_s for *_, time_s in history]))
    return lambda nodes, sizes: math.exp(float(model.predict([[nodes, *sizes]])[0]))


PEERS: Mapping[str, Callable[[Sequence[Run]], Predict]] = {
    "log-linear": log_linear,
    "Ernest": partial(_with, _ernest),
    "boosting": boosting,
}

if __name__ == "__main__":
    main()
