"""What a present profile of Snakemake or Nextflow asks for, and how past runs would fare with it.

Values are read as people write them, and never evaluated: ``4 * attempt``, ``{ 6.GB * task.attempt
}``, ``'1d 2h'``.  Of other expressions nothing is known.
"""

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from math import inf

from slurm_plugin.config.yaml_text import load_yaml
from slurm_plugin.reports.engine_profiles import BacktestedRun, Need, process_of
from slurm_plugin.text.formatting import count, duration

#: Run time in seconds and memory in bytes at the first attempt; None: nothing that can be read.
Asked = tuple[float | None, float | None]
_MIB = 2**20
#: An amount, bare, quoted or in a closure, with what it grows by after the first attempt.
_FIRST = re.compile(
    r"\{?\s*(?:min\(\d+, *|check_max\( *|attempt *\*|task\.attempt > 1 \? [^:]* : [^:]* : )?"
    r"\s*['\"]?(?P<first>\d[\w. ]*?)['\"]?\s*"
    r"(?:\*\s*\(?(?:task\.)?attempt\b.*|, *'\w+' *\))?\s*\}?",
    re.ASCII,
)
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)[ .]*([a-z]?)[a-z]*", re.ASCII)
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_BYTES = {letter: 1024.0**power for power, letter in enumerate("bkmgt")}
_SCOPE = re.compile(
    r"\bwith(Name|Label)\s*:\s*(['\"]?)([^\s'\"{]+)\2\s*\{((?:[^{}]|\{[^{}]*\})*)\}"
)
_SETTING = re.compile(r"(?:^|[{;\s.])(time|memory)\s*=\s*(\{[^}]*\}|[^;\n{}]+)")


def compared(
    engine: str, text: str, name: str, tried: Iterable[tuple[Need, list[BacktestedRun]]]
) -> list[str]:
    """Say what runs of each process would have had by a profile, and by the new one.

    text, name: of the profile.
    tried: what is needed, and runs with what those before them say.
    Raises ConfigError: the profile cannot be read.
    """
    read = {"snakemake": _of_snakemake, "nextflow": _of_nextflow}[engine]
    lines = []
    for need, runs in tried:
        if not (process := process_of(need, engine)):
            continue
        limit_s, mem_bytes = read(text, name, process)
        if not runs or limit_s is mem_bytes is None:
            why = "nothing in the file that can be read" if runs else "no further run to try it on"
            lines.append(f"{process}: {why}")
            continue
        short = sum(one.is_short(limit_s or inf, mem_bytes or 0.0) for one in runs)
        line = f"{process}: of {count(len(runs), 'run')} {need.short} would fail instead of {short}"
        if limit_s:
            new_s = sum(one.limit_s for one in runs)
            less_s = len(runs) * limit_s - new_s
            line += f"; limits {duration(new_s / len(runs))} instead of {duration(limit_s)}"
            line += f", in all {duration(abs(less_s))} {'less' if less_s >= 0 else 'more'}"
        if mem_bytes and all(one.mem_bytes for one in runs):
            new = sum(one.mem_bytes for one in runs) / len(runs)
            line += f"; memory {new / _MIB:.0f}M instead of {mem_bytes / _MIB:.0f}M"
        lines.append(line)
    return lines


def _amount(value: object, units: Mapping[str, float], bare: str = "") -> float | None:
    found = _FIRST.fullmatch(str(value).strip())
    parts = _AMOUNT.findall(found["first"].lower()) if found else []
    factors = [units.get(letter or bare, inf) for _, letter in parts]
    total = sum(float(number) * factor for (number, _), factor in zip(parts, factors, strict=True))
    return total if 0 < total < inf else None


def _of_snakemake(text: str, name: str, rule: str) -> Asked:
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
    return _amount(given.get("runtime"), _SECONDS, "m"), _amount(memory, _BYTES, "m")


def _of_nextflow(text: str, _name: str, process: str) -> Asked:
    text = re.sub(r"/\*.*?\*/|(?<!:)//[^\n]*", "", text, flags=re.DOTALL)
    bodies = [_SCOPE.sub("", text)]
    for kind, _, selector, body in _SCOPE.findall(text):
        # A process may be named without its workflow; job names have underscores for colons.
        ways = rf"(?:.*_)?(?:{selector.replace(':', '_')})"
        with suppress(re.error):  # it is Java's
            bodies += [body] if kind == "Name" and re.fullmatch(ways, process) else []
    given = {name: value for body in bodies for name, value in _SETTING.findall(body)}
    return _amount(given.get("time"), _SECONDS), _amount(given.get("memory"), _BYTES)
