"""Workflows as engines print them: Snakemake's dry run and DAG, Nextflow's DAG and trace."""

import csv
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sacct_ingest.errors import ConfigError
from slurm_plugin.experiments.plan.foreign import ForeignTask, ForeignWorkflow

#: Jobs of a group are further to the right.
_RULE = re.compile(r"^ *(?:local)?(?:rule|checkpoint) (\w+):$", re.MULTILINE)
#: What ends the text of a job in a dry run: the next one with its time, or what is said of it.
_NEXT = re.compile(
    r"\n\s*\n(?= *(?:local)?(?:rule|checkpoint) \w+:$)|\n(?= *\[\w{3} \w{3} +\d+ [\d:]+ \d+\])"
    r"|\n(?=Job stats:|Would remove |DAG of jobs will be updated|This was a dry-run)|\s*\Z",
    re.MULTILINE,
)
_KEY = re.compile(r"^ +([a-z-]+): (.*)$", re.MULTILINE)
#: The table of how many jobs each rule has.
_STATS = re.compile(r"^Job stats:\n.*\n[- ]+\n((?:\w+ +\d+.*\n)+)", re.MULTILINE)
#: What a dry run says before its jobs, and after them.
_FIRST_LINE = "Building DAG of jobs..."
_LAST_LINE = "This was a dry-run"
_SHELL = "Shell command: "
#: What stands at the end of a graph.
_CLOSED = re.compile(r"^\s*\}", re.MULTILINE)
_NODE = re.compile(r'^\s*"?(\w+)"?\s*\[(.*)\];?\s*$')
_EDGE = re.compile(r'^\s*"?(\w+)"?\s*->\s*"?(\w+)"?')
_LABEL = re.compile(r'(?<![a-z])label\s*=\s*"((?:[^"\\]|\\.)*)"')
#: How Nextflow draws what is no process: channels and operators.
_NO_PROCESS = re.compile(r"shape\s*=\s*\"?(?:point|circle)")
_PARTS = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)\b")
_UNITS_S = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_BYTES = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)B")
#: Shortest run time that a task is planned with, seconds.
_LEAST_S = 0.001
NO_TRACE = "only a DAG of Nextflow has a --trace"
SNAKEMAKE, NEXTFLOW = "snakemake", "nextflow"


def is_dry_run(text: str) -> bool:
    """Whether it is what ``snakemake --dry-run --printshellcmds`` prints."""
    jobs = _RULE.search(text) is not None and "\n    jobid: " in text
    return jobs or _FIRST_LINE in text


def dry_run(text: str, *, name: str) -> ForeignWorkflow:
    """Read what ``snakemake --dry-run --printshellcmds`` prints.

    Raises ConfigError: it was cut off, has no job that writes a file, or does not say of one what
        it writes.
    """
    if _LAST_LINE not in text:
        raise ConfigError(f"{name}: cut off at byte {len(text.encode())}: it has no {_LAST_LINE!r}")
    _check_whole(text, name)
    tasks: list[ForeignTask] = []
    wanted: set[str] = set()
    for match in _RULE.finditer(text):
        body = text[match.end() : _end(text, match.end())]
        keys = dict(_KEY.findall(body.partition(f"\n{_SHELL}")[0]))
        writes = _files(keys.get("output", ""))
        if not writes:  # as ``all``: it only asks for files
            wanted.update(_files(keys.get("input", "")))
            continue
        command = body.partition(f"\n{_SHELL}")[2].strip()
        tasks.append(
            ForeignTask(
                name=f"{match[1]}-{keys.get('jobid', len(tasks))}",
                group=match[1],
                command="" if command == "None" else _with_folders(keys.get("log", ""), command),
                reads=_files(keys.get("input", "")),
                writes=writes,
                cores=int(keys.get("threads", "1")),
                memory_bytes=_memory_bytes(keys.get("resources", "")),
                limit_min=_runtime_min(keys.get("resources", "")),
                application=f"{SNAKEMAKE}:{match[1]}",
            )
        )
    if not tasks:
        raise ConfigError(f"{name}: no job of the dry run writes a file")
    # A dry run lists jobs in any order; sizes are passed on from task to task.
    return ForeignWorkflow(SNAKEMAKE, tuple(_in_order(tasks)), wanted=frozenset(wanted))


def _check_whole(text: str, name: str) -> None:
    """Refuse a dry run that does not show all of its jobs."""
    stats = _STATS.search(text)
    shown = Counter(_RULE.findall(text))
    for rule, number in re.findall(r"^(\w+) +(\d+)", stats[1] if stats else "", re.MULTILINE):
        if rule != "total" and shown[rule] < int(number):
            raise ConfigError(
                f"{name}: the files of {int(number) - shown[rule]} of {number} jobs of rule {rule} "
                "are not shown, as where a rule has a message: plan 'snakemake --dag' instead"
            )


def _with_folders(logs: str, command: str) -> str:
    """Make the folders of a job's logs first, which are below where the plan is submitted."""
    folders = sorted({folder for log in _files(logs) if (folder := log.rpartition("/")[0])})
    return f"mkdir -p -- {shlex.join(folders)}\n{command}" if folders else command


def dag(text: str, trace: str | None = None, *, name: str) -> ForeignWorkflow:
    """Read a graph in Graphviz's language.

    text: of ``snakemake --dag``, or of Nextflow's ``-with-dag FILE.dot``.
    trace: text of Nextflow's ``-with-trace``: its tasks, with their run times.
    Raises ConfigError: it was cut off, has no task, or has a trace and is not of Nextflow.
    """
    if not _CLOSED.search(text):
        raise ConfigError(f"{name}: cut off at byte {len(text.encode())}: the graph has no end")
    graph = _graph(text)
    if re.search(r'digraph\s+"?snakemake_dag', text):
        if trace is not None:
            raise ConfigError(f"{name}: {NO_TRACE}")
        tasks = list(_of_snakemake(graph))
        system = SNAKEMAKE
    else:
        tasks = list(_of_processes(graph) if trace is None else _traced(graph, trace, name))
        system = NEXTFLOW
    if not tasks:
        raise ConfigError(f"{name}: the graph has no task")
    return ForeignWorkflow(system, tuple(tasks))


@dataclass(frozen=True, slots=True)
class _Graph:
    """Processes by their nodes, and the edges between all nodes."""

    labels: Mapping[str, str]
    edges: Mapping[str, tuple[str, ...]]  #: where those into a node come from

    def before(self, node: str) -> tuple[str, ...]:
        """List the processes that come directly before one, past what is no process."""
        found = []
        open_nodes = [*self.edges.get(node, ())]
        seen = {node}
        while open_nodes:
            one = open_nodes.pop()
            if one in seen:
                continue
            seen.add(one)
            if one in self.labels:
                found.append(one)
            else:
                open_nodes += self.edges.get(one, ())
        return tuple(sorted(found))


def _graph(text: str) -> _Graph:
    labels: dict[str, str] = {}
    edges: dict[str, tuple[str, ...]] = {}
    for line in text.splitlines():
        if edge := _EDGE.match(line):
            edges[edge[2]] = (*edges.get(edge[2], ()), edge[1])
        elif (node := _NODE.match(line)) and node[1] not in ("graph", "node", "edge"):
            label = _LABEL.search(node[2])
            if label and label[1] and not _NO_PROCESS.search(node[2]):
                labels[node[1]] = label[1]
    return _Graph(labels, edges)


def _of_snakemake(graph: _Graph) -> Iterator[ForeignTask]:
    """Tasks of a DAG, but for a rule ``all`` that nobody needs: it only asks for files."""
    needed = {one for sources in graph.edges.values() for one in sources}
    rules = {node: label.partition("\\n")[0] for node, label in graph.labels.items()}
    for node, rule in rules.items():
        if rule == "all" and node not in needed:
            continue
        after = tuple(f"{rules[one]}-{one}" for one in graph.before(node))
        yield ForeignTask(
            name=f"{rule}-{node}", group=rule, after=after, application=f"{SNAKEMAKE}:{rule}"
        )


def _of_processes(graph: _Graph) -> Iterator[ForeignTask]:
    for node, label in graph.labels.items():
        after = tuple(graph.labels[one] for one in graph.before(node))
        process = label.rpartition(":")[2]
        yield ForeignTask(
            name=label, group=process, after=after, application=f"{NEXTFLOW}:{process}"
        )


def _traced(graph: _Graph, trace: str, name: str) -> Iterator[ForeignTask]:
    """Tasks of a trace; one that has a tag needs those of it, or else all of a process."""
    nodes = {label.rpartition(":")[2]: node for node, label in graph.labels.items()}
    rows = _rows(trace, name)
    tasks: dict[str, list[tuple[str, str]]] = {}
    for row in rows:
        process, tag = _parted(row["name"])
        tasks.setdefault(process, []).append((row["name"], tag))
    for row in rows:
        process, tag = _parted(row["name"])
        if process not in nodes:
            raise ConfigError(f"{name}: the trace's process {process!r} is not in the graph")
        after: list[str] = []
        for before in graph.before(nodes[process]):
            every = tasks.get(graph.labels[before].rpartition(":")[2], [])
            alike = [one for one, own in every if tag and own == tag]
            after += alike or [one for one, _ in every]
        took = row.get("realtime") or row.get("duration") or ""
        yield ForeignTask(
            name=row["name"],
            group=process,
            after=tuple(after),
            run_time_s=max(_seconds(took, name), _LEAST_S),
            application=f"{NEXTFLOW}:{process}",
        )


def _rows(trace: str, name: str) -> list[dict[str, str]]:
    if not trace.endswith("\n"):
        raise ConfigError(f"{name}: the trace is cut off at byte {len(trace.encode())}")
    rows = list(csv.DictReader(trace.splitlines(), delimiter="\t"))
    if not rows or "name" not in rows[0]:
        raise ConfigError(f"{name}: the trace has no column 'name', or no task")
    for number, row in enumerate(rows, start=2):
        if None in row.values():
            raise ConfigError(f"{name}: line {number} of the trace has too few columns")
    # Of a task that was tried again the last one counts.
    return list({row["name"]: row for row in rows if row.get("status") != "FAILED"}.values())


def _parted(task: str) -> tuple[str, str]:
    """Process and tag of a task.

    >>> _parted("FLOW:ALIGN (s1)"), _parted("MERGE")
    (('ALIGN', 's1'), ('MERGE', ''))
    """
    process, _, tag = task.partition(" (")
    return process.rpartition(":")[2], tag.removesuffix(")")


def _seconds(text: str, name: str) -> float:
    """Seconds of a time, as Nextflow writes it; of a raw trace milliseconds.

    >>> _seconds("1m 2.5s", "trace"), _seconds("250ms", "trace"), _seconds("1500", "trace")
    (62.5, 0.25, 1.5)
    """
    if text.strip().isdecimal():
        return int(text) / 1000
    parts = _PARTS.findall(text)
    if not parts and text not in ("-", "0"):
        raise ConfigError(f"{name}: {text!r} is no time of a trace")
    return sum(float(number) * _UNITS_S[unit] for number, unit in parts)


def _end(text: str, start: int) -> int:
    found = _NEXT.search(text, start)
    return found.start() if found else len(text)


def _files(text: str) -> tuple[str, ...]:
    """Files of a list, without what Snakemake says of them.

    >>> _files("in/a.txt, in/b.txt (ancient)")
    ('in/a.txt', 'in/b.txt')
    """
    return tuple(re.sub(r" \([a-z ,]+\)$", "", one.strip()) for one in text.split(", ") if one)


def _memory_bytes(resources: str) -> float:
    found = re.search(r"\bmem_mb=(\d+)", resources)
    return float(found[1]) * 1e6 if found else 0.0


def _runtime_min(resources: str) -> int:
    found = re.search(r"\bruntime=(\d+)", resources)
    return int(found[1]) if found else 0


def _in_order(tasks: list[ForeignTask]) -> list[ForeignTask]:
    """Put each task behind those whose files it reads."""
    left = list(tasks)
    done = set[str]()
    order = list[ForeignTask]()
    while left:
        writes = {file for task in left for file in task.writes}
        ready = [task for task in left if not writes & (set(task.reads) - done)]
        ready = ready or left  # a circle: the workflow's own check names it
        order += ready
        done |= {file for task in ready for file in task.writes}
        left = [task for task in left if task not in ready]
    return order
