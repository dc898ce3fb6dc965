"""Numbers of threads, tasks and GPUs that a job script sets itself, whatever Slurm gives it."""

import re
from math import prod

from sacct_ingest.scripts.job_script import bounded_cache, parse_script

#: What is fixed, by the option of Slurm that it does not follow: the program that takes the option
#: (none: a variable), and the option as a script says it.
_PATTERNS = {
    "cpus": (("", r"\b(?:OMP|MKL|OPENBLAS|JULIA)_NUM_THREADS=[\"']?\d+"),),
    "tasks": (
        # The first such option alone is of MPI: the program that it starts may have another.
        (r"\b(?:mpirun|mpiexec|mpiexec\.hydra|orterun)(?=\s)", r"(?<=\s)--?(?:np|n)[ =]\d*"),
        (r"\bsrun\s", r"(?<!\S)(?:-n[ =]?|--ntasks[ =])\d+"),
        # Of OpenFOAM's decomposeParDict, or of foamDictionary, which writes it.
        ("", r"\bnumberOfSubdomains[ \t]+(?:-set[ \t]+)?\d+"),
    ),
    "gpus": (
        ("", r"\bCUDA_VISIBLE_DEVICES=[\"']?\d+(?:,\d+)*"),
        (r"\b(?:torchrun|torch\.distributed\.\w+)\s", r"--nproc[-_]per[-_]node[ =]\d+"),
    ),
    "nodes": (
        (r"\btorchrun\s", r"--nnodes[ =]\d+"),
        (r"\bsrun\s", r"(?<!\S)(?:-N[ =]?|--nodes[ =])\d+"),
    ),
}


_MOST_DIGITS = 9
_DEVICES = "CUDA_VISIBLE_DEVICES"
#: Numbers of groups that tasks are parted into, all alike: VASP's k-points and bands (KPAR, with
#: NPAR groups or NCORE tasks in each), Quantum ESPRESSO's pools.
_GROUPS = re.compile(
    r"(?<![\w-])(?:(?P<vasp>-{0,2}(?:[KN]PAR|NCORE|[kn]par|ncore))[ \t]{0,9}[= ][ \t]{0,9}"
    r"|-(?P<pools>nk|npools?)[ =])"
    r"(?P<count>[1-9]\d{0,3})(?!\d)"
)

_WORDS = ("KPAR", "NPAR", "NCORE", "kpar", "npar", "ncore", "-nk", "-npool")


def _expression(program: str, option: str) -> re.Pattern[str]:
    """Match a command from its program to its option or its end, and never look at a part again."""
    before = rf"{program}(?:(?!{option})[^|;&\n])*" if program else ""
    return re.compile(f"{before}({option})" + ("?" if program else ""))


_COMPILED = [(name, _expression(*one)) for name, several in _PATTERNS.items() for one in several]


@bounded_cache(entries=256, characters=16_384)
def fixed_sizes(script: str) -> dict[str, str]:
    r"""Find what a script fixes: ``cpus`` (of each task), ``tasks``, ``gpus`` or ``nodes``.

    Returns dict: the last words that say so, as they stand in the script.

    >>> fixed_sizes("#!/bin/sh\nexport OMP_NUM_THREADS=8\nmpirun --bind-to core -np 16 ./solve\n")
    {'cpus': 'OMP_NUM_THREADS=8', 'tasks': '-np 16'}
    >>> fixed_sizes("#!/bin/sh\nexport OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK\nsrun ./solve\n")
    {}
    """
    body = parse_script(script).body
    sizes = ((name, _first(expression, body)) for name, expression in _COMPILED)
    return {name: words for name, words in sizes if words}


def _first(expression: re.Pattern[str], body: str) -> str:
    """Give the first option that has a number; empty where there is none."""
    options = (match[1] or "" for match in expression.finditer(body))
    return next((words for words in options if words[-1:].isdecimal()), "")


def fixed_number(words: str) -> int:
    """Give the number that words of `fixed_sizes` say.

    >>> [fixed_number(words) for words in ("-np 16", "CUDA_VISIBLE_DEVICES=0,1")]
    [16, 2]
    """
    numbers: list[str] = re.findall(r"\d+", words)
    return len(numbers) if words.startswith(_DEVICES) else int(numbers[-1][:_MOST_DIGITS])


@bounded_cache(entries=256, characters=16_384)
def task_multiple(script: str, arguments: str = "") -> int:
    r"""Find what the number of tasks has to be a multiple of; 1: of nothing.

    arguments: those of the script, with spaces between them.

    >>> task_multiple("#!/bin/sh\nprintf 'KPAR = 4\nNCORE = 2\n' >> INCAR\nsrun vasp_std\n")
    8
    >>> task_multiple("#!/bin/sh\nsrun pw.x -npool 4 -in scf.in\n")
    4
    """
    # To read the text takes longer.
    if not any(word in script or word in arguments for word in _WORDS):
        return 1
    text = f"{parse_script(script).body}\n{arguments}"
    groups = {
        (one["vasp"] or "pools").lstrip("-").upper(): int(one["count"])
        for one in _GROUPS.finditer(text)
    }
    if "NPAR" in groups:  # it goes before NCORE
        groups.pop("NCORE", None)
    return prod(groups.values())
