"""Numbers of threads, tasks and GPUs that a job script sets itself, whatever Slurm gives it."""

import re

from sacct_ingest.bounded_cache import bounded_cache
from sacct_ingest.job_script import parse_script

#: Where the words of a command end.
_REST = r"[^|;&\n]*?"
#: Words of a command of MPI before the number of tasks: those of the program come behind it.
_BEFORE = r"(?:(?!\s--?(?:np|n)[ =])[^|;&\n])*"
#: What is fixed, by the option of Slurm that it does not follow, as the script says it.
_PATTERNS = {
    "cpus": (r"\b(?:OMP|MKL|OPENBLAS|JULIA)_NUM_THREADS=[\"']?\d+",),
    "tasks": (
        rf"\b(?:mpirun|mpiexec|mpiexec\.hydra|orterun)(?=\s){_BEFORE}\s--?(?:np|n)[ =]\d+",
        rf"\bsrun\s{_REST}(?<!\S)(?:-n[ =]?|--ntasks[ =])\d+",
    ),
    "gpus": (
        r"\bCUDA_VISIBLE_DEVICES=[\"']?\d+(?:,\d+)*",
        rf"\b(?:torchrun|torch\.distributed\.\w+)\s{_REST}--nproc[-_]per[-_]node[ =]\d+",
    ),
    "nodes": (rf"\btorchrun\s{_REST}--nnodes[ =]\d+",),
}
_COMPILED = {
    name: tuple(re.compile(one) for one in patterns) for name, patterns in _PATTERNS.items()
}


@bounded_cache(entries=256, characters=16_384)
def fixed_sizes(script: str) -> dict[str, str]:
    r"""Find what a script fixes: ``cpus`` (of each task), ``tasks``, ``gpus`` or ``nodes``.

    Returns
    -------
    dict
        The last words that say so, as they stand in the script.

    Examples
    --------
    >>> fixed_sizes("#!/bin/sh\nexport OMP_NUM_THREADS=8\nmpirun --bind-to core -np 16 ./solve\n")
    {'cpus': 'OMP_NUM_THREADS=8', 'tasks': '-np 16'}
    >>> fixed_sizes("#!/bin/sh\nexport OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK\nsrun ./solve\n")
    {}
    """
    body = parse_script(script).body
    sizes = {
        name: match
        for name, patterns in _COMPILED.items()
        for pattern in patterns
        if (match := next(pattern.finditer(body), None))
    }
    return {name: _words(match.group()) for name, match in sizes.items()}


def _words(text: str) -> str:
    """Keep the option, or the variable, with its number."""
    last = re.search(r"(?:--?[\w-]+[ =]?\d+|\w+=[\"']?[\d,]+)$", text)
    return last.group() if last else text
