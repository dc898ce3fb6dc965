"""What rules need as Snakemake's profile, and what a present profile asks for."""

from collections.abc import Iterable
from math import ceil

from slurm_plugin.config.yaml_text import load_yaml
from slurm_plugin.reports.engine_needs import RETRIES, Need, first_memory, lines_of
from slurm_plugin.reports.input_memory import InputMemory
from slurm_plugin.reports.input_time import InputTime
from slurm_plugin.reports.profile_amounts import BYTES, SECONDS, Asked, amount_in
from slurm_plugin.text.formatting import count

_MIB = 2**20


def snakemake(needs: Iterable[Need]) -> str:
    """Make a profile with the resources of each rule, which grow with attempts.

    An expression of a profile has the number of the attempt, not what ended the last one: time and
    memory both grow.
    """
    made = [
        "# Further attempts get more time and more memory: no profile knows which of them ran out.",
        "# input.size_mb is the size of a job's input files.",
        f"retries: {RETRIES}",
        "set-resources:",
    ]

    def at_most(most: float | None, unit: int, value: str) -> str:
        return f"min({most // unit:.0f}, {value})" if most else value

    for rule, said, need in lines_of(needs, "snakemake"):
        made += [f"  # {said}", f"  {rule}:"]
        if need.time_s is not None:
            if need.time_by_input is not None:
                made.append(f"    # by input: long enough for {_judged(need.time_by_input)}")
            value = f"{_snakemake_minutes(need, need.time_s)} * attempt"
            made.append(f"    runtime: {at_most(need.most_s, 60, value)}")
        if need.by_input is not None:
            made.append(f"    # by input: enough for {_judged(need.by_input)}")
        if need.mem_bytes is not None:
            value = _snakemake_memory(need, need.mem_bytes)
            made.append(f"    mem_mb: {at_most(need.most_mem_bytes, _MIB, value)}")
        made.append(f"    cpus_per_task: {need.cpus_per_task}")
        made += [f"    tasks: {need.tasks}"] if need.tasks > 1 else []
        made += [f"    nodes: {need.nodes}"] if need.nodes > 1 else []
    return "\n".join(made) + "\n"


def _judged(need: InputMemory | InputTime) -> str:
    return f"{need.inside} of {count(need.predictions, 'run')}, each by those before it"


def _snakemake_minutes(need: Need, time_s: float) -> str:
    """Write the time limit of a first attempt in minutes."""
    time = need.time_by_input
    if time is None:
        return f"{ceil(time_s / 60)}"
    grown = f"{time.fixed_s / 60:.3g} + {time.grown_s / 60:.3g} * input.size_mb"
    return f"(int(max({time.least_s / 60:.3g}, {grown})) + 1)"


def _snakemake_memory(need: Need, mem_bytes: float) -> str:
    """Write the memory of each attempt in MiB."""
    if memory := need.by_input:
        least, fixed = (ceil(one / _MIB) for one in (memory.least_bytes, memory.fixed_bytes))
        size = "input.size_mb" if memory.power == 1 else f"input.size_mb ** {memory.power:g}"
        grown = f"{fixed} + {memory.grown_bytes / _MIB:.3g} * {size}"
        return f"int(max({least}, {grown})) * 2 ** (attempt - 1)"
    first, enough = (ceil(one / _MIB) for one in (first_memory(need), mem_bytes))
    if enough > 2 * first:
        return f"{first} if attempt == 1 else {enough} * 2 ** (attempt - 2)"
    return f"{first} * 2 ** (attempt - 1)"


def asked_of_rule(text: str, name: str, rule: str) -> Asked:
    """Read what a profile asks for a rule.

    text, name: of the profile.
    Raises ConfigError: it cannot be read.
    """
    read = load_yaml(text, name=name)
    given: dict[str, object] = {}
    for key, begin in (("default-resources", ""), ("set-resources", f"{rule}:")):
        one = read.get(key) if isinstance(read, dict) else None
        if isinstance(one, dict):
            given |= (one.get(rule) or {}) if begin else one
        elif isinstance(one, list):  # of RULE:NAME=VALUE
            words = [str(word).removeprefix(begin) for word in one if str(word).startswith(begin)]
            given |= {word.partition("=")[0]: word.partition("=")[2] for word in words}
    memory = next((given[key] for key in ("mem_mb", "mem_mib", "mem") if key in given), None)
    return amount_in(given.get("runtime"), SECONDS, "m"), amount_in(memory, BYTES, "m")
