"""Options that sbatch takes from its environment (sbatch(1), INPUT ENVIRONMENT VARIABLES).

They go before the script's ``#SBATCH`` lines and after the command line.
"""

from collections.abc import Mapping

from sacct_ingest.job_script import Options

#: Variables with another name than their option's; the others are ``SBATCH_`` and the option.
_NAMES = {
    "array-inx": "array",
    "mem-per-node": "mem",
    "req-switch": "switches",
    "timelimit": "time",
    "cpu-freq-req": "cpu-freq",
}
_OPTIONS = (
    "account", "array-inx", "constraint", "cpu-freq-req", "cpus-per-gpu", "exclusive", "gpus",
    "gpus-per-node", "gpus-per-socket", "gpus-per-task", "gres", "job-name", "mem-per-cpu",
    "mem-per-gpu", "mem-per-node", "no-requeue", "overcommit", "partition", "qos", "req-switch",
    "requeue", "reservation", "signal", "spread-job", "threads-per-core", "timelimit",
    "use-min-nodes", "wckey", "clusters", "export", "network",
)  # fmt: skip
_VARIABLES = {f"SBATCH_{name.upper().replace('-', '_')}": name for name in _OPTIONS}


def options_of(environ: Mapping[str, str]) -> Options:
    """Options that these variables set.

    >>> options_of({"SBATCH_TIMELIMIT": "10", "SBATCH_EXCLUSIVE": "", "HOME": "/"})
    {'exclusive': '', 'time': '10'}
    """
    return {
        _NAMES.get(name, name): environ[variable]
        for variable, name in _VARIABLES.items()
        if variable in environ
    }
