"""The file that a job writes its output to, by the pattern of ``--output``."""

import re
from typing import Final

#: What sbatch writes to where no pattern is named.
DEFAULT: Final = "slurm-%j.out"
DEFAULT_OF_ARRAY: Final = "slurm-%A_%a.out"
#: ``%5j`` is padded with zeros to five digits.
_REPLACED: Final = re.compile(r"%(\d*)(.)")


def output_file(
    pattern: str,
    *,
    job_id: int,
    name: str,
    user: str,
    array_job_id: int | None = None,
    array_task_id: int | None = None,
) -> str:
    """Put a job into a pattern of a file's name; empty where it has more than the job says.

    >>> output_file("logs/%x-%5j.out", job_id=299, name="cfd", user="ann")
    'logs/cfd-00299.out'
    >>> output_file("", job_id=301, name="cfd", user="ann", array_job_id=299, array_task_id=2)
    'slurm-299_2.out'
    >>> output_file("%N.out", job_id=299, name="cfd", user="ann")
    ''
    """
    default = DEFAULT if array_job_id is None else DEFAULT_OF_ARRAY
    values = {
        "%": "%",
        "j": str(job_id),
        "A": str(array_job_id or job_id),
        "a": None if array_task_id is None else str(array_task_id),
        "x": name,
        "u": user,
    }
    unknown = False

    def replaced(match: re.Match[str]) -> str:
        nonlocal unknown
        value = values.get(match[2])
        unknown |= value is None
        return (value or "").zfill(int(match[1] or 0)) if match[2] in "jAa" else value or ""

    named = _REPLACED.sub(replaced, pattern or default)
    return "" if unknown or "\\" in named or named.startswith("/dev/") else named
