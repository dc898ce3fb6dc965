"""Random jobs of ten kinds, and how long each would take and how much memory it would need.

A job of the tests ends at once: its run time and memory are those of its application's formula, for
the nodes and CPUs that Slurm really gave it.  So three hundred jobs that take from minutes to hours
are over in a minute, and Slurm's limits of whole minutes mean what they mean at a site.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass

USERS = ("root", "daemon", "games")
#: Memory of a CPU where a job asks for none, and of a node, MiB.
DEFAULT_MIB, NODE_MIB = 300, 2000


@dataclass(frozen=True, slots=True)
class Formula:
    """Run time in seconds and memory in MiB of an application, on nodes with CPUs of each."""

    serial_s: float
    work_s: float  #: on one CPU
    mem_mib: float = 0.0  #: in all, dealt out evenly
    threads: int = 4  #: CPUs of a node that it can use
    noise: float = 0.03
    learned_cpus: int = 0  #: earlier runs had so many CPUs of each node; 0: any number

    def time_s(self, nodes: int, cpus: int, problem: float, luck: float) -> float:
        """Run time of one job."""
        units = nodes * min(cpus, self.threads)
        return (self.serial_s + problem * self.work_s / units) * (1 + self.noise * luck)


@dataclass(frozen=True, slots=True)
class Job:
    """One job as its user submits it."""

    name: str
    user: str
    options: tuple[str, ...]
    formula: Formula
    problem: float  #: its size, which nothing that is submitted tells
    luck: float  #: standard deviations by which its run time is off

    def time_s(self, nodes: int, cpus: int) -> float:
        """Run time where it gets so many nodes, with so many CPUs of each."""
        return self.formula.time_s(nodes, cpus, self.problem, self.luck)


Options = Callable[[random.Random, Formula], tuple[str, ...]]


def limit(chance: random.Random, formula: Formula, nodes: int, cpus: int = 1) -> str:
    """Give a time limit as users do: what it takes on these nodes, and up to ten times more."""
    longest_s = formula.time_s(nodes, cpus, 1.0, 3.0)
    return f"--time={int(longest_s * chance.choice((1.1, 1.5, 4, 10)) / 60) + 1}"


def _range(chance: random.Random, formula: Formula) -> tuple[str, ...]:
    low, high = chance.choice(((1, 4), (1, 8), (2, 8)))
    return (f"-N{low}-{high}", limit(chance, formula, low))


def _tasks_on_each(chance: random.Random, formula: Formula) -> tuple[str, ...]:
    tasks = chance.choice((1, 2, 4, 4, 4))
    set_it = ("--comment=nimo:time=set",) if chance.random() < 0.5 else ()
    own = limit(chance, formula, 1, tasks)
    return ("-N1-4", f"--ntasks-per-node={tasks}", own, *set_it)


def _one_count(chance: random.Random, formula: Formula) -> tuple[str, ...]:
    nodes = chance.choice((1, 2, 4))
    return (f"-N{nodes}", limit(chance, formula, nodes))


def _tasks(chance: random.Random, formula: Formula) -> tuple[str, ...]:
    tasks = chance.choice((1, 2, 4))
    return ("-N1", f"-n{tasks}", limit(chance, formula, 1, tasks))


def _whole_nodes(chance: random.Random, formula: Formula) -> tuple[str, ...]:
    memory = chance.choice(((), ("--mem-per-cpu=200",)))
    return ("-N1-4", "--exclusive", *memory, limit(chance, formula, 1, 4))


def _own_memory(chance: random.Random, formula: Formula) -> tuple[str, ...]:
    memory = chance.choice(("--mem=900", "--mem-per-cpu=900"))
    return ("-N2-8", memory, limit(chance, formula, 2))


def _default_memory(chance: random.Random, formula: Formula) -> tuple[str, ...]:
    return ("-N1-8", limit(chance, formula, 1))


def _deadline(chance: random.Random, formula: Formula) -> tuple[str, ...]:
    spare = chance.choice((2, 5, 9))
    own = limit(chance, formula, 1)
    # Since 24.11 Slurm refuses a limit that ends after the deadline.
    hours = spare + int(own.removeprefix("--time=")) // 60
    return ("-N1-4", f"--deadline=now+{hours}hours", own)


def _array(chance: random.Random, formula: Formula) -> tuple[str, ...]:
    return ("-N1-2", "--array=1-2", limit(chance, formula, 1))


#: Name, what it takes, problems that go by its name, and how it is asked for.
KINDS: tuple[tuple[str, Formula, tuple[float, ...], Options], ...] = (
    ("range", Formula(120, 7200), (1.0,), _range),
    ("tasks-on-each", Formula(60, 9600, learned_cpus=4), (1.0,), _tasks_on_each),
    ("one-count", Formula(200, 5400), (1.0,), _one_count),
    ("tasks", Formula(30, 6000, learned_cpus=4), (1.0,), _tasks),
    ("whole-nodes", Formula(300, 14400), (1.0,), _whole_nodes),
    ("own-memory", Formula(60, 3600, mem_mib=1700), (1.0,), _own_memory),
    ("default-memory", Formula(60, 7200, mem_mib=1000), (1.0,), _default_memory),
    ("deadline", Formula(100, 5000), (1.0,), _deadline),
    ("several-problems", Formula(60, 7200), (0.04, 0.2, 1.0), _range),
    ("array", Formula(240, 3600, noise=0.1), (1.0,), _array),
)


def random_jobs(count: int, seed: int) -> list[Job]:
    """Draw jobs, all kinds alike often; the same for the same seed."""
    chance = random.Random(seed)
    made = []
    for number in range(count):
        name, formula, problems, options = KINDS[number % len(KINDS)]
        made.append(
            Job(
                name=name,
                user=USERS[number // len(KINDS) % len(USERS)],
                options=options(chance, formula),
                formula=formula,
                problem=chance.choice(problems),
                luck=max(-3.0, min(3.0, chance.gauss(0, 1))),
            )
        )
    chance.shuffle(made)
    return made
