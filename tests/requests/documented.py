"""The tables of docs/requests.md: what is promised for each request."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "requests.md"


@dataclass(frozen=True, slots=True)
class Promise:
    """One row: a request and what becomes of it; counts may depend on n, the chosen one."""

    request: str
    nodes: str
    cpus: str
    tasks: str
    why: str

    @property
    def chosen(self) -> bool:
        """Whether nimod is to choose the count."""
        return self.nodes == "n"


def promises(heading: str) -> list[Promise]:
    """Read the table under a heading."""
    return [Promise(*row) if len(row) == 5 else Promise("", *row) for row in _rows(heading)]


@dataclass(frozen=True, slots=True)
class SizePromise:
    """One row about CPUs, tasks or GPUs: a request with a tag, and what becomes of it."""

    request: str
    tag: str
    cpus: str
    tasks: str
    cpus_per_task: str
    gpus: str
    why: str

    @property
    def chosen(self) -> bool:
        """Whether nimod is to choose the size."""
        return "n" in (self.cpus, self.gpus)


def size_promises(heading: str) -> list[SizePromise]:
    """Read the table of sizes under a heading."""
    return [SizePromise(*row) for row in _rows(heading)]


@dataclass(frozen=True, slots=True)
class MemoryPromise:
    """One row about memory: a request with a tag, the memory that the job has, and why its size."""

    request: str
    tag: str
    memory: str
    why: str

    @property
    def lowered(self) -> bool:
        """Whether the job has less than it asks for."""
        return self.memory.split("M")[0] not in self.request


def memory_promises(heading: str) -> list[MemoryPromise]:
    """Read the table of memory under a heading."""
    return [MemoryPromise(*row) for row in _rows(heading)]


def _rows(heading: str) -> list[list[str]]:
    section = PAGE.read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows = [line.strip("| ") for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip(" `") for cell in re.split(r"\|", line)] for line in rows[2:]]


def count(cell: str, n: int | None) -> int:
    """Read ``n`` or ``2n``."""
    return int(cell.removesuffix("n") or 1) * (n or 0)


def ways() -> list[str]:
    """List the other ways in, by their names in the table."""
    section = PAGE.read_text().partition("\n## Other ways to submit\n")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("|")][2:]
    return [row.split("|")[1].strip().replace("`", "") for row in rows]
