"""Workflow engines: what their jobs are, by how each engine names them.

Process or rule is the application.  Sample and workflow are attributes of the problem, and the
attempt tells a retry that asks for more from another problem.  One row an engine, from its sources
or from what it was seen to submit; ``docs/identity.md`` has them as a table.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from sacct_ingest.scripts.templates import UUID, template
from sacct_ingest.text.tag import without_tag

#: Characters of a field that are looked at, and of the name of an application.
_LONGEST, _NAME_LENGTH = 4096, 100
_PROCESS = r"(?P<process>\S++)"


class EngineJob(NamedTuple):
    """What an engine says of a job; ``attempt`` is 1 where it does not count them."""

    engine: str
    process: str
    sample: str = ""
    workflow: str = ""
    attempt: int = 1

    @property
    def application(self) -> str:
        """Name of the application, as a tag would have it."""
        return f"{self.engine}:{self.process}"[:_NAME_LENGTH]


class Engine(NamedTuple):
    """How an engine names its jobs.

    Fields are ``name``, ``comment``, ``script`` (the name of its file) and ``command`` (what
    ``--wrap`` runs).  Groups of the expressions are the fields of `EngineJob`.
    """

    name: str
    sign: tuple[str, str]  #: a field, and what stands in it: all others are passed by
    whole: dict[str, str]  #: expressions that these whole fields have to match
    within: tuple[tuple[str, str], ...] = ()  #: fields, and expressions that may match in them
    process: str = ""  #: where no expression names it


ENGINES = (
    Engine(
        "snakemake",
        ("comment", "rule_"),
        {
            "name": rf"(?:\S+_)?{UUID}",
            "comment": r"rule_(?P<process>(?:(?!_wildcards_)\S)++)(?:_wildcards_(?P<sample>.*))?",
        },
        (
            ("command", r" --attempt (?P<attempt>\d{1,6})"),
            ("command", r" --snakefile '?(?P<workflow>[^\s']{1,300})"),
        ),
    ),
    Engine(
        "nextflow",
        ("name", "nf-"),
        {"name": r"nf-(?P<process>(?:(?!_\().)++)(?:_\((?P<sample>[^)]*+).*)?"},
    ),
    Engine(
        "submitit",
        ("script", "submission_file_"),
        {"script": r"\.?submission_file_[0-9a-f]++\.sh", "name": _PROCESS},
    ),
    Engine("dask", ("name", "dask-worker"), {"name": "dask-worker"}, process="worker"),
    Engine(
        "parsl",
        ("name", "parsl."),
        {"name": r"parsl\.(?P<process>(?:(?!\.block-)\S)++)\.block-\S++"},
    ),
    Engine(
        "cromwell",
        ("name", "cromwell_"),
        {"name": rf"cromwell_[0-9a-f]{{8}}_{_PROCESS}"},
        (
            ("command", rf"/(?P<workflow>[^/\s]{{1,300}})/{UUID}/call-"),
            ("command", r"/shard-(?P<sample>\d{1,9})/"),
            ("command", r"/attempt-(?P<attempt>\d{1,6})/"),
        ),
    ),
    Engine("toil", ("name", "toil_job_"), {"name": rf"toil_job_\d++_{_PROCESS}"}),
    # From 100 on: g09 and g16 are Gaussian's releases.
    Engine("galaxy", ("name", "g"), {"name": rf"g\d{{3,}}+_{_PROCESS}"}),
    Engine("aiida", ("name", "aiida-"), {"name": r"aiida-\d++"}, process="calculation"),
    Engine(
        "fireworks", ("script", "FW_submit"), {"script": r"FW_submit\.script", "name": _PROCESS}
    ),
    Engine(
        "cylc",
        ("script", "job"),
        {
            "script": "job",
            "name": r"(?P<process>[^.\s]++)\.(?P<sample>[\d+-][\dTZ+:-]*+)\.(?P<workflow>\S++)",
        },
    ),
    Engine(
        "ecflow",
        ("script", ".job"),
        {"script": r"(?P<process>(?:(?!\.job\d)\S)++)\.job(?P<attempt>\d{1,6})"},
    ),
    Engine(
        "ondemand",
        ("name", "/dashboard/"),
        {"name": r"(?:[^/\s]++/)?(?:sys|dev|usr/[^/\s]++)/dashboard/(?P<process>\S++)"},
    ),
    Engine("batchspawner", ("name", "spawner-"), {"name": "spawner-jupyterhub"}, process="server"),
)
ENGINE_NAMES = frozenset(one.name for one in ENGINES)
_COMPILED = [
    (
        one,
        [(field, re.compile(text, re.ASCII | re.DOTALL)) for field, text in one.whole.items()],
        [(field, re.compile(text, re.ASCII)) for field, text in one.within],
    )
    for one in ENGINES
]


def engine_job(name: str, comment: str, words: Sequence[str]) -> EngineJob | None:
    """Recognise an engine's job by its name, comment and command; None: it is no engine's.

    words: as `sacct_ingest.scripts.signature` spells them.

    >>> engine_job("nf-ALIGN_(liver)", "", (".command.run",))
    EngineJob(engine='nextflow', process='ALIGN', sample='liver', workflow='', attempt=1)
    """
    wrapped = bool(words) and words[0] == "--wrap"
    fields = {
        "name": name[:_LONGEST],
        "comment": without_tag(comment)[:_LONGEST],
        "script": "" if wrapped or not words else words[0][:_LONGEST],
        "command": " ".join(words)[:_LONGEST] if wrapped else "",
    }
    for engine, whole, within in _COMPILED:
        field, sign = engine.sign
        if sign not in fields[field]:
            continue
        matches = [expression.fullmatch(fields[name]) for name, expression in whole]
        if not all(matches):
            continue
        matches += [expression.search(fields[name]) for name, expression in within]
        said = {k: v for one in matches if one for k, v in one.groupdict().items() if v}
        process = template(said.get("process", engine.process))
        attempt = int(said.get("attempt", "1"))
        return EngineJob(
            engine.name, process, said.get("sample", ""), said.get("workflow", ""), attempt
        )
    return None
