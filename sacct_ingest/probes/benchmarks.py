"""Node benchmarks: the script that runs them with common tools, and the reader of its output.

NIMO measures resource profiles with whetstone, lmbench and netperf (Shivam et al., sec. 2.5) and
allows any benchmarks that measure the resources separately: here sysbench, fio and iperf3.  A
node needs nothing else: the script is plain sh, and its output is read where it was sent from.
"""

import json
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from sacct_ingest.records import NodeProfile

PARTS: Final = ("cpu", "memory", "disk", "network")
_MARK: Final = "@@nimo"
_MIB: Final = 1 << 20
_EVENTS: Final = r"events per second:\s*([\d.]+)"
#: How to get a tool that a node lacks.
_INSTALL: Final = "install it there (apt-get install {0}, dnf install {0})"
_HEAD = f"""\
nimo_run() {{
  nimo_name=$1; shift
  command -v "$1" >/dev/null 2>&1 || {{ echo "{_MARK} missing $nimo_name $1"; return; }}
  echo "{_MARK} begin $nimo_name"
  "$@" 2>&1
  echo "{_MARK} end $nimo_name $?"
}}
nimo_patiently() {{
  nimo_tries=0
  while :; do
    nimo_out=$("$@" 2>&1); nimo_status=$?
    case $nimo_out in
      *"server is busy"*) nimo_tries=$((nimo_tries + 1))
        [ $nimo_tries -ge 120 ] || {{ sleep 1; continue; }} ;;
    esac
    printf '%s\\n' "$nimo_out"; return $nimo_status
  done
}}
echo "{_MARK} fact job ${{SLURM_JOB_ID:-}}"
echo "{_MARK} fact cpus $(nproc)"
echo "{_MARK} fact model $(sed -n 's/^\\(model name\\|cpu model\\|Model\\)[^:]*: *//p' \
/proc/cpuinfo | head -n 1)"
export LC_ALL=C"""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkPlan:
    """What is run on each node.

    parts: of `PARTS`.
    seconds, repeats: each CPU and memory benchmark runs so long and so often; the best counts,
        since whatever else a node does can only make it slower.
    disk_folder, disk_bytes: where fio writes and reads a file of this size.
    network_host, network_port: an iperf3 server; it serves one node at a time, the others wait for
        it.
    """

    parts: tuple[str, ...] = PARTS
    seconds: int = 2
    repeats: int = 3
    disk_folder: str = "/tmp"  # noqa: S108 - what each node has
    disk_bytes: int = 64 << 20
    network_host: str = ""
    network_port: int = 5201


def script(plan: BenchmarkPlan) -> str:
    """Give the text of the job: each benchmark's own output between two marks."""
    runs = [line for part in plan.parts for line in _LINES[part](plan)]
    return "\n".join([_HEAD, *runs, ""])


def _cpu_lines(plan: BenchmarkPlan) -> Iterable[str]:
    for threads, name in (("1", "cpu"), ('"$(nproc)"', "cpu_all")):
        yield from [
            f"nimo_run {name} sysbench cpu --cpu-max-prime=20000 --threads={threads}"
            f" --time={plan.seconds} run"
        ] * plan.repeats


def _memory_lines(plan: BenchmarkPlan) -> Iterable[str]:
    # A block far larger than any cache; "total size" is out of reach, so that time ends it.
    common = f"--memory-oper=read --memory-total-size=100T --time={plan.seconds}"
    bandwidth = f'--memory-block-size=256M --threads="$(nproc)" {common}'
    latency = (
        f"--memory-block-size=128M --threads=1 {common} --memory-access-mode=rnd"
        " --rand-type=uniform"
    )
    for name, options in (("memory", bandwidth), ("memory_random", latency)):
        yield from [f"nimo_run {name} sysbench memory {options} run"] * plan.repeats


def _disk_lines(plan: BenchmarkPlan) -> Iterable[str]:
    folder = shlex.quote(plan.disk_folder)
    yield f"nimo_file={folder}/.nimo-profile-$$"
    yield "trap 'rm -f \"$nimo_file\"' EXIT"
    yield (
        f'nimo_run disk fio --output-format=json --filename="$nimo_file" --size={plan.disk_bytes}'
        " --direct=1 --ioengine=psync --thread"
        " --name=write --rw=write --bs=1M --end_fsync=1"
        " --name=read --stonewall --rw=read --bs=1M"
        " --name=latency --stonewall --rw=randread --bs=4k --number_ios=200"
    )


def _network_lines(plan: BenchmarkPlan) -> Iterable[str]:
    if not plan.network_host:
        return
    server = f"-c {shlex.quote(plan.network_host)} -p {plan.network_port} -J"
    # The round trip of a trickle: a full link would be measured with its own queue.
    for name, options in (("network", f"-t {plan.seconds}"), ("network_latency", "-t 1 -b 1M")):
        yield f"command -v iperf3 >/dev/null 2>&1 || echo '{_MARK} missing {name} iperf3'"
        yield (
            "command -v iperf3 >/dev/null 2>&1 && "
            f"nimo_run {name} nimo_patiently iperf3 {server} {options}"
        )


_LINES: Final[Mapping[str, Callable[[BenchmarkPlan], Iterable[str]]]] = {
    "cpu": _cpu_lines,
    "memory": _memory_lines,
    "disk": _disk_lines,
    "network": _network_lines,
}


def read(output: str, *, cluster: str, node: str, at_s: float) -> tuple[NodeProfile, str]:
    """Read what a node printed: its figures, without a type, and its CPU model.

    What failed or is missing is in the profile's ``error``.
    """
    facts, texts, errors = _sections(output)
    values: dict[str, float] = {}
    for name, text in texts:
        try:
            for field, value in _READERS[name](text).items():
                best = min if field.endswith("_s") and "_per_" not in field else max
                values[field] = best(value, values.get(field, value))
        except (KeyError, ValueError, TypeError, IndexError):
            errors.append(f"{name}: {_gist(text)}")
    if not facts:
        errors.insert(0, f"nothing came back: {_gist(output)}")
    empty = NodeProfile(cluster=cluster, node=node, node_type="", at_s=at_s)
    profile = replace(
        empty,
        job_id=_number(facts.get("job", "")),
        cpus=_number(facts.get("cpus", "")),
        error="; ".join(dict.fromkeys(errors)),
        **values,  # type: ignore[arg-type]
    )
    return profile, facts.get("model", "")


def _sections(output: str) -> tuple[dict[str, str], list[tuple[str, str]], list[str]]:
    """Facts, the outputs of benchmarks that ended well, and complaints about the others."""
    facts: dict[str, str] = {}
    texts: list[tuple[str, str]] = []
    errors: list[str] = []
    lines: list[str] = []
    for line in output.splitlines():
        word, _, rest = line.partition(" ")
        if word != _MARK:
            lines.append(line)
            continue
        kind, name, value = [*rest.split(" ", 2), "", ""][:3]
        if kind == "fact":
            facts[name] = value.strip()
        elif kind == "missing":
            errors.append(f"{value} is missing: {_INSTALL.format(value)}")
        elif kind == "end" and value == "0":
            texts.append((name, "\n".join(lines)))
        elif kind == "end":
            errors.append(f"{name}: {_gist(chr(10).join(lines))}")
        lines = []
    # Where the last benchmark that began did not end.
    marks = [line.split()[1] for line in output.splitlines() if line.startswith(f"{_MARK} ")]
    if lines and facts and marks[-1:] == ["begin"]:
        errors.append(f"broke off: {_gist(chr(10).join(lines))}")
    return facts, texts, errors


def _mib_per_s(text: str) -> float:
    return _figure(r"\(([\d.]+) MiB/sec\)", text)


def _disk(text: str) -> dict[str, float]:
    jobs = {job["jobname"]: job for job in _json(text)["jobs"]}
    return {
        "disk_write_bytes_per_s": float(jobs["write"]["write"]["bw_bytes"]),
        "disk_read_bytes_per_s": float(jobs["read"]["read"]["bw_bytes"]),
        "disk_latency_s": jobs["latency"]["read"]["clat_ns"]["mean"] / 1e9,
    }


_READERS: Final[Mapping[str, Callable[[str], dict[str, float]]]] = {
    "cpu": lambda text: {"cpu_events_per_s": _figure(_EVENTS, text)},
    "cpu_all": lambda text: {"cpu_all_events_per_s": _figure(_EVENTS, text)},
    "memory": lambda text: {"mem_bandwidth_bytes_per_s": _mib_per_s(text) * _MIB},
    # Each access is of one word of eight bytes.
    "memory_random": lambda text: {"mem_latency_s": 8 / (_mib_per_s(text) * _MIB)},
    "disk": _disk,
    "network": lambda text: {
        "net_bandwidth_bytes_per_s": _json(text)["end"]["sum_received"]["bits_per_second"] / 8
    },
    "network_latency": lambda text: {
        "net_latency_s": _json(text)["end"]["streams"][0]["sender"]["min_rtt"] / 1e6
    },
}


def _figure(pattern: str, text: str) -> float:
    match = re.search(pattern, text)
    if match is None or float(match[1]) <= 0:
        raise ValueError(f"no {pattern} in it")
    return float(match[1])


def _json(text: str) -> Any:
    # fio warns before it.
    return json.loads(text[text.index("{") : text.rindex("}") + 1])


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() else None


def _gist(text: str) -> str:
    """Give the line that is most likely the error message."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    complaints = [
        line for line in lines if re.search("error|fatal|fail|denied", line, re.IGNORECASE)
    ]
    return (complaints or lines or ["no output"])[0][:200]
