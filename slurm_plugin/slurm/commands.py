"""Running one Slurm command and getting its text, or one clear error."""

import os
import subprocess
from collections.abc import Sequence

from sacct_ingest.errors import SlurmError

#: Times as seconds since the epoch, and array indexes in full.
_FORMATS = {"SLURM_TIME_FORMAT": "%s", "SLURM_BITSTR_LEN": "0"}


def run(argv: Sequence[str], *, timeout_s: float) -> str:
    """Output of a Slurm command.

    Raises
    ------
    SlurmError
        The command is missing, failed, or took longer than ``timeout_s``.
    """
    try:
        done = subprocess.run(
            argv,
            capture_output=True,
            timeout=timeout_s,
            env={**_without_defaults(os.environ), **_FORMATS},
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except FileNotFoundError as error:
        raise SlurmError(f"{argv[0]}: not found on PATH; are Slurm's commands there?") from error
    except subprocess.TimeoutExpired as error:
        raise SlurmError(f"{argv[0]}: no answer within {timeout_s:g} s") from error
    except OSError as error:
        raise SlurmError(f"{argv[0]}: {error.strerror or error}") from error
    if done.returncode != 0:
        told = done.stderr.decode(errors="replace").strip().splitlines()
        raise SlurmError(f"{argv[0]}: {told[0] if told else f'exit status {done.returncode}'}")
    return done.stdout.decode(errors="replace")


def _without_defaults(environ: "os._Environ[str]") -> dict[str, str]:
    """Environment without a user's own defaults for squeue and sinfo, such as ``SQUEUE_STATES``."""
    return {k: v for k, v in environ.items() if not k.startswith(("SQUEUE_", "SINFO_"))}
