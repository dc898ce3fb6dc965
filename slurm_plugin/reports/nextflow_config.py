"""What processes need as Nextflow's configuration, and what a present one asks for."""

import re
from collections.abc import Iterable
from contextlib import suppress
from math import ceil

from slurm_plugin.reports.engine_needs import RETRIES, Need, first_memory, lines_of
from slurm_plugin.reports.profile_amounts import BYTES, SECONDS, Asked, amount_in

_MIB = 2**20
_SCOPE = re.compile(
    r"\bwith(Name|Label)\s*:\s*(['\"]?)([^\s'\"{]+)\2\s*\{((?:[^{}]|\{[^{}]*\})*)\}"
)
_SETTING = re.compile(r"(?:^|[{;\s.])(time|memory)\s*=\s*(\{[^}]*\}|[^;\n{}]+)")
#: Exit statuses after which nf-core's pipelines try again, too.
_AGAIN = "task.exitStatus in ((130..145) + 104)"


def nextflow(needs: Iterable[Need]) -> str:
    """Make a configuration with the resources of each process.

    Job names have underscores in place of the colons of a process's full name.  Nextflow's jobs
    exit with 140 at their time limit (USR2, which it asks Slurm for), and with 137 when killed for
    their memory: the other one stays.
    """
    made = [
        "// For Nextflow 24.10 and later.  resourceLimits: what the partition of the runs allows.",
        "process {",
    ]

    def grows(what: str, first: str, ended_other: int, least: str = "") -> str:
        factor = f"(task.previousTrace.exit == {ended_other} ? 1 : 2)"
        again = f"task.previousTrace.{what} * {factor}"
        if least:  # what the second attempt gets at least, where this ran out
            more = f"[{least}, task.previousTrace.{what} * 2].max()"
            same = f"task.previousTrace.exit == {ended_other}"
            again = f"({same} ? task.previousTrace.{what} : {more})"
        return f"        {what} = {{ task.attempt > 1 ? {again} : {first} }}"

    for process, said, need in lines_of(needs, "nextflow"):
        selector = process.replace(".", "[.]").replace("_", "[:_]")
        made += [f"    // {said}", f"    withName: '{selector}' {{"]
        if need.time_s is not None:
            made.append(grows("time", f"{ceil(need.time_s / 60)}.min", 137))
        if need.mem_bytes is not None:
            first, enough = (ceil(one / _MIB) for one in (first_memory(need), need.mem_bytes))
            least = f"{enough}.MB" if enough > 2 * first else ""
            made.append(grows("memory", f"{first}.MB", 140, least))
        made.append(f"        errorStrategy = {{ {_AGAIN} ? 'retry' : 'finish' }}")
        made.append(f"        maxRetries = {RETRIES}")
        made.append(f"        cpus = {need.cpus_per_task * need.tasks}")
        most = {
            "time": need.most_s and f"{need.most_s // 60:.0f}.min",
            "memory": need.most_mem_bytes and f"{need.most_mem_bytes // _MIB}.MB",
            "cpus": need.most_cpus,
        }
        bounds = ", ".join(f"{name}: {value}" for name, value in most.items() if value)
        made += [f"        resourceLimits = [{bounds}]"] if bounds else []
        made.append("    }")
    return "\n".join([*made, "}"]) + "\n"


def asked_of_process(text: str, _name: str, process: str) -> Asked:
    """Read what a configuration asks for a process."""
    text = re.sub(r"/\*.*?\*/|(?<!:)//[^\n]*", "", text, flags=re.DOTALL)
    bodies = [_SCOPE.sub("", text)]
    for kind, _, selector, body in _SCOPE.findall(text):
        # A process may be named without its workflow; job names have underscores for colons.
        ways = rf"(?:.*_)?(?:{selector.replace(':', '_')})"
        with suppress(re.error):  # it is Java's
            bodies += [body] if kind == "Name" and re.fullmatch(ways, process) else []
    given = {name: value for body in bodies for name, value in _SETTING.findall(body)}
    return amount_in(given.get("time"), SECONDS), amount_in(given.get("memory"), BYTES)
