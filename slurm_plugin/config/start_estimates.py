"""Defaults of what ``nimo-advise`` may ask of Slurm, apart from the other settings.

It reads them without what checks settings, which takes longer to load than Python.
"""

from typing import NamedTuple


class StartEstimates(NamedTuple):
    """What is asked by ``sbatch --test-only``; the fields are those of `settings.Advise`."""

    test_only: bool = True
    calls: int = 5
    timeout_s: float = 3.0
    cache_s: float = 60.0


DEFAULTS = StartEstimates()
