"""How soon `nimo lab learn` knows ten synthetic laws of run time, and two programs that were run.

Each law is learned as the command does it: run by run, through the same objects, from what the
accounting would say of each run (time, utilisation, counted bytes), until it stops by itself or has
made 24 runs.  Run times have noise of 0, 3, 10, 15 and 30 % (standard deviation of log time); the
counted bytes of every second law miss up to four fifths, as those of short runs do.  The two
programs were run once on each assignment (``recordings/learned.csv``, made by ``--record``): CPU
seconds, for the machine was shared.

Errors are mean absolute percentage errors over the whole space, against the law without noise.
*Within* is how often a new run on an assignment, with its noise, is within the interval of 90 %.

Peers in the same run: the paper's own way to the letter (Lmax-I1, linear functions,
cross-validation, stop at 10 %; Shivam, Babu, Chase, VLDB 2006), and as many runs as ours, taken at
random and learned from with our functions.
"""

import csv
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from math import log
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

import _bench
import numpy as np
from _error_measures import mape
from _paper_settings import EXPERIMENT
from msgspec.structs import replace

from predictor.occupancy.active.settings import LearnerSettings
from predictor.occupancy.active.space import Assignment, Space
from predictor.occupancy.fit import OccupancyFit
from slurm_plugin.experiments.learn.description import GIB, INPUT_BYTES, ModelChoices, Stage, Trial
from slurm_plugin.experiments.learn.proposers import ByOccupancies, model, sample

NOISES = (0.0, 0.03, 0.10, 0.15, 0.30)
DRAWS = 5
#: Runs after which learning ends here if it did not stop by itself.
MOST_RUNS = 24
#: Least and most that the accounting counts of the bytes where it misses some.
MISSED = (0.2, 1.1)
RECORDINGS = Path(__file__).parent / "recordings" / "learned.csv"
BETTER = {"nodes": True, "cpus": True, "memory": True, "cpu_freq": True, INPUT_BYTES: False}
OURS, PAPER, RANDOM = "nimo learn", "paper", "random"


@dataclass(frozen=True, slots=True)
class Law:
    """Seconds that a run computes, and stalls, on an assignment."""

    name: str
    levels: Mapping[str, Sequence[float]]
    compute_s: Callable[[Assignment], float]
    stall_s: Callable[[Assignment], float] = lambda _given: 0.0
    slower: tuple[str, ...] = ()

    @property
    def space(self) -> Space:
        """Assignments that a run can be given."""
        known = BETTER | dict.fromkeys(self.slower, False)
        return Space.full(self.levels, {name: known.get(name, True) for name in self.levels})

    def time_s(self, given: Assignment) -> float:
        """Run time without noise."""
        return self.compute_s(given) + self.stall_s(given)


def _gib(given: Assignment) -> float:
    return given[INPUT_BYTES] / GIB


def _cores(given: Assignment) -> float:
    return given["nodes"] * given["cpus"]


SMALL = {"nodes": (1.0, 2.0, 4.0), "cpus": (1.0, 2.0, 4.0)}
WIDE = {"nodes": (1.0, 2.0, 4.0, 6.0, 8.0), "cpus": (1.0, 2.0, 4.0, 8.0, 16.0)}
SIZES = tuple(GIB * n for n in (1, 2, 4, 8))
MORE_SIZES = tuple(GIB * n for n in (1, 2, 4, 8, 12, 16))
LAWS = (
    Law(
        "3 + 16 λ/(n c)",
        {**SMALL, INPUT_BYTES: SIZES},
        lambda a: 16 * _gib(a) / _cores(a),
        lambda _a: 3,
    ),
    Law(
        "λ (5 + 90/(n c))",
        {**WIDE, INPUT_BYTES: MORE_SIZES},
        lambda a: _gib(a) * (5 + 90 / _cores(a)),
    ),
    Law(
        "10 + 60 λ/(n c) + 2 n",
        {**WIDE, INPUT_BYTES: MORE_SIZES},
        lambda a: 10 + 60 * _gib(a) / _cores(a),
        lambda a: 2 * a["nodes"],
    ),
    Law(
        "40 λ^1.2/(n c)^0.8",
        {**WIDE, INPUT_BYTES: MORE_SIZES},
        lambda a: 40 * _gib(a) ** 1.2 / _cores(a) ** 0.8,
    ),
    Law(
        "5 + 30 λ/c, thrice where memory < λ",
        {
            "cpus": (1.0, 2.0, 4.0, 8.0, 16.0),
            "memory": tuple(GIB * n for n in (2, 4, 8, 16, 32)),
            INPUT_BYTES: MORE_SIZES,
        },
        lambda a: 5 + 30 * _gib(a) / a["cpus"],
        lambda a: 60 * _gib(a) / a["cpus"] if a["memory"] < a[INPUT_BYTES] else 0.0,
    ),
    Law(
        "λ (4.4/f + 0.45 l)",
        {
            "cpu_freq": (0.45, 0.8, 0.93, 1.0, 1.4),
            "rtt_latency_s": (0.2, 4.0, 8.0, 12.0, 18.0),
            INPUT_BYTES: MORE_SIZES,
        },
        lambda a: 4.4 * _gib(a) / a["cpu_freq"],
        lambda a: 0.45 * _gib(a) * a["rtt_latency_s"],
        slower=("rtt_latency_s",),
    ),
    Law(
        "max(40 λ/(n c), 6 λ)",
        {**WIDE, INPUT_BYTES: MORE_SIZES},
        lambda a: 40 * _gib(a) / _cores(a),
        lambda a: max(0.0, 6 * _gib(a) - 40 * _gib(a) / _cores(a)),
    ),
    Law(
        "2 + 25 λ log2(2 λ)/c",
        {"cpus": (1.0, 2.0, 4.0, 8.0, 12.0, 16.0), INPUT_BYTES: MORE_SIZES},
        lambda a: 2 + 25 * _gib(a) * log(2 * _gib(a), 2) / a["cpus"],
    ),
    Law(
        "8 + 25 λ/min(c, 4)",
        {"cpus": (1.0, 2.0, 3.0, 4.0, 6.0, 8.0), INPUT_BYTES: MORE_SIZES},
        lambda a: 8 + 25 * _gib(a) / min(a["cpus"], 4),
    ),
    Law("12 + 7 λ", {**WIDE, INPUT_BYTES: MORE_SIZES}, lambda a: 7 * _gib(a), lambda _a: 12),
)


@dataclass(frozen=True, slots=True)
class Runs:
    """Runs of one law, each with its own noise, as the accounting has them."""

    law: Law
    noise: float
    draw: int
    misses: bool  #: whether counted bytes miss some

    def trial(self, given: dict[str, float], purpose: str = "training", again: int = 0) -> Trial:
        """Run once on an assignment; ``again`` makes another run of the same."""
        place = self.law.space.candidates.index(given)
        rng = np.random.default_rng([self.draw, place, again])
        noise = float(rng.lognormal(0, self.noise)) if self.noise else 1.0
        compute_s, stall_s = self.law.compute_s(given), self.law.stall_s(given)
        share = float(rng.uniform(*MISSED)) if self.misses else 1.0
        return Trial(
            key=str(place),
            attempt=again,
            job_name="nimo-learn-law",
            nodes=int(given.get("nodes", 1)),
            limit_s=3600.0,
            attributes=given,
            purpose=purpose,
            why="",
            planned_s=0,
            stage=Stage.DONE,
            elapsed_s=(compute_s + stall_s) * noise,
            utilisation=compute_s / (compute_s + stall_s),
            data_bytes=round(share * given[INPUT_BYTES]),
        )


def learned(runs: Runs, settings: LearnerSettings) -> tuple[OccupancyFit, int]:
    """Learn until it stops; with the number of runs."""
    space = runs.law.space
    proposer = ByOccupancies(space, settings, _model(space, settings))
    count = 0
    while count < MOST_RUNS and (proposal := proposer.propose()):
        proposer.observe(runs.trial(dict(proposal.attributes), proposal.purpose.value))
        count += 1
    return proposer.fit, count


def at_random(runs: Runs, count: int) -> tuple[OccupancyFit, int]:
    """Learn from as many runs, taken at random."""
    space, settings = runs.law.space, LearnerSettings()
    order = np.random.default_rng([runs.draw, 9]).permutation(len(space.candidates))[:count]
    trials = [runs.trial(space.candidates[i]) for i in order]
    choices = _model(space, settings)
    samples = [made for one in trials if (made := sample(one, trials[0], choices))]
    return model(choices).fit(samples), count


def _model(space: Space, settings: LearnerSettings) -> ModelChoices:
    faster = frozenset(name for name, more in space.more_is_better.items() if more)
    return ModelChoices(form=settings.form, faster=faster)


def scored(runs: Runs, made: OccupancyFit, count: int) -> dict[str, float]:
    """Error over the whole space, how often new runs are within, and the runs it took."""
    every = runs.law.space.candidates
    predicted = [made.predict(one) for one in every]
    actual = [runs.law.time_s(one) for one in every]
    new = [runs.trial(one, again=1).elapsed_s for one in every]
    ratios = [max(p.time_s / a, a / p.time_s) for p, a in zip(predicted, actual, strict=True)]
    pairs = zip(predicted, new, strict=True)
    return {
        "runs": count,
        "of the space %": 100 * count / len(every),
        "error %": mape([one.time_s for one in predicted], actual),
        "worst %": 100 * (max(ratios) - 1),
        "within %": 100 * fmean(p.low_s <= t <= p.high_s for p, t in pairs),
    }


def ways(runs: Runs) -> Iterator[tuple[str, OccupancyFit, int]]:
    """Each way to learn, with what it learned and from how many runs."""
    made, count = learned(runs, LearnerSettings())
    yield OURS, made, count
    yield PAPER, *learned(runs, replace(EXPERIMENT, target=10.0))
    yield RANDOM, *at_random(runs, count)


@cache
def recorded() -> list[Law]:
    """Read the programs that were run: CPU seconds by a choice and the size of the input."""
    times: dict[str, dict[tuple[float, float], float]] = {}
    with RECORDINGS.open(newline="") as file:
        for row in csv.DictReader(file):
            place = float(row["choice"]), float(row["input_bytes"])
            times.setdefault(row["program"], {})[place] = float(row["cpu_s"])
    return [_recorded(program, of) for program, of in times.items()]


def _recorded(program: str, times: Mapping[tuple[float, float], float]) -> Law:
    choices, sizes = (tuple(sorted(set(each))) for each in zip(*times, strict=True))
    levels = {"choice": choices, INPUT_BYTES: sizes}
    return Law(program, levels, lambda a: REPEATED * times[a["choice"], a[INPUT_BYTES]])


#: A job does each of these so often: learning takes no time for less than a second.
REPEATED = 1000
#: Programs: their command, and what ``{}`` in it may be.
PROGRAMS = {
    "xz, by preset": ("xz --threads=1 --stdout -{} {} >/dev/null", (1, 2, 3, 4, 6, 9)),
    "sort, by buffer": (
        "sort --parallel=1 --buffer-size={}K --compress-program=gzip {} >/dev/null",
        (128, 256, 512, 1024, 4096, 16384),
    ),
}
RECORDED_BYTES = tuple(2**19 * n for n in (1, 2, 4))


def record(path: Path) -> None:
    """Run the programs on each assignment, and write down their CPU seconds."""
    rng = np.random.default_rng(1)
    words = np.array([f"{n:x}" for n in rng.integers(0, 2**24, 5000)])
    with TemporaryDirectory() as folder, path.open("w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["program", "choice", "input_bytes", "cpu_s"])
        for size in RECORDED_BYTES:
            text = Path(folder) / f"{size}.txt"
            lines_of = " ".join(rng.choice(words, size // 5)).replace(" 1", "\n")
            text.write_text(lines_of[: size - 1] + "\n")
            for program, (command, choices) in PROGRAMS.items():
                for choice in choices:
                    cpu_s = _cpu_s(command.format(choice, text))
                    lines.writerow([program, choice, size, round(cpu_s, 4)])
                    file.flush()


def _cpu_s(command: str) -> float:
    before = getrusage(RUSAGE_CHILDREN)
    subprocess.run(command, shell=True, check=True)
    after = getrusage(RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def job(key: tuple[int, float, int]) -> dict[str, dict[str, float]]:
    """Learn one law with one noise, in each way."""
    place, noise, draw = key
    laws = [*LAWS, *recorded()]
    runs = Runs(laws[place], noise, draw, misses=place % 2 == 1)
    return {name: scored(runs, made, count) for name, made, count in ways(runs)}


def main() -> None:
    """Print and write the table."""
    parser = _bench.options(__doc__ or "")
    parser.add_argument("--record", action="store_true", help="run the programs anew first")
    parser.add_argument("--draws", type=int, default=DRAWS, help="of the noise")
    args = parser.parse_args()
    if args.record:
        record(RECORDINGS)
    draws = 1 if args.quick else args.draws
    names = [law.name for law in (*LAWS, *recorded())]
    keys = []
    for place in range(len(names)):
        noises = NOISES if place < len(LAWS) else (0.0,)
        keys += [(place, noise, draw) for noise in noises for draw in range(draws)]
    with ProcessPoolExecutor(2) as pool:
        results = dict(zip(keys, _shown(pool.map(job, keys), keys, names), strict=True))
    rows = []
    for place, noise in dict.fromkeys((place, noise) for place, noise, _ in keys):
        drawn = [results[place, noise, draw] for draw in range(draws)]
        for way in drawn[0]:
            figures = {name: fmean(one[way][name] for one in drawn) for name in drawn[0][way]}
            rows.append({"law": names[place], "noise": noise, "way": way, **figures})
    _bench.table(rows, title="Learned until it stops; errors over the whole space")
    summed = []
    for noise, way in dict.fromkeys((row["noise"], row["way"]) for row in rows):
        alike = [
            r for r in rows if (r["noise"], r["way"]) == (noise, way) and r["law"] in names[:10]
        ]
        figures = {name: fmean(row[name] for row in alike) for name in FIGURES}
        middle = float(np.median([row["error %"] for row in alike]))
        summed.append({"noise": noise, "way": way, **figures, "median error %": middle})
    _bench.table(summed, title="The ten laws together")
    _bench.write(args.json, rows=rows, summed=summed)


FIGURES = ("runs", "of the space %", "error %", "worst %", "within %")


def _shown(results: Iterable[Any], keys: Sequence[Any], names: Sequence[str]) -> Iterator[Any]:
    for key, result in zip(keys, results, strict=True):
        texts = (
            f"{way} {one['runs']:.0f} runs, {one['error %']:.1f} %, within {one['within %']:.0f} %"
            for way, one in result.items()
        )
        print(names[key[0]], *key[1:], *texts, sep="; ", file=sys.stderr, flush=True)
        yield result


if __name__ == "__main__":
    main()
