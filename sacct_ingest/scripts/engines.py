"""Workflow engines: what their jobs are, by how each engine names them.

Process or rule is the application.  Sample and workflow are attributes of the problem, and the
attempt tells a retry that asks for more from another problem.  One row an engine, from its sources
or from what it was seen to submit; ``docs/identity.md`` has them as a table.

Of names and command lines what stays from run to run is their `template`.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from sacct_ingest.text.tag import without_tag

#: Characters that are looked at; what follows stays as it is.
LONGEST = 16_384
UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_HASH = (
    r"(?=(?:\d++[a-f]++\d|[a-f]++\d++[a-f])|(?:\d++[A-F]++\d|[A-F]++\d++[A-F]))"
    r"(?:[0-9a-f]{7,128}+|[0-9A-F]{7,128}+)"
)
_PARTS = (
    UUID,
    # A date, with a time: 2024-05-31, 2024053112, 20240531T1200, 2024-05-31-12-00-00-123456.
    r"(?:19|20)\d\d[-_.]?(?:0[1-9]|1[0-2])[-_.]?(?:0[1-9]|[12]\d|3[01])"
    r"(?:[T_ -]?[0-2]\d(?:[:_-]?[0-5]\d(?:[:_-]?[0-5]\d(?:[.-]\d{1,9})?)?)?Z?)?",
    # Seconds since the epoch, of 2001 to 2033, also with parts of a second; not a billion, a size.
    r"(?!1\d0{8})1\d{9}(?:\.\d{1,9}|\d{3}|\d{6}|\d{9})?",
    # Names that the C library, Python and mktemp make up.
    r"tmp(?:\.?[0-9A-Za-z]{6}|\.?[0-9A-Za-z]{10}|\.?[0-9a-z_]{8})(?!_)",
    # A hash in one case: letters and digits in turn, not 1e10 or deadbeef; as a folder, too.
    rf"(?:[0-9a-f]{{2}}/)?{_HASH}",
    # The id of a job as a folder.
    r"(?<=/)\d{6,12}(?=[/\0]|$)",
)
_COUNTER = r"0\d{2,8}"
#: Numbers that say how much, and are never volatile: decimals, exponents, signed numbers, versions.
_QUANTITIES = (
    # Behind a zero and a point nothing counts up, in whatever word: dt0.001.in.
    r"(?<![0-9])0\.\d++(?:[eE][+-]?\d++)?(?![0-9A-Za-z])",
    # Elsewhere they are words of their own: run2.001.dat is numbered.
    r"(?<![0-9A-Za-z.])(?!1\d{9}\.)(?:\d++\.\d++|\.\d++)(?:[eE][+-]?\d++)?(?![0-9A-Za-z.])",
    r"(?<![0-9A-Za-z.])\d++[eE][+-]?\d{1,3}+(?![0-9A-Za-z.])",
    r"(?<=[=\s\0,])[+-]\d++(?![0-9A-Za-z._-])",
    r"(?<![0-9.])(?!(?:19|20)\d\d\.)\d++(?:\.\d++){2,}(?!\.\d|[0-9A-Za-z])",
)
_KEPT = f"(?P<kept>{'|'.join(_QUANTITIES)})"


#: How each part begins: most words are passed by at their first letters.  A part begins where no
#: letter or digit is before it and gives nothing back, so that each character is looked at a
#: bounded number of times, whatever the text.
_BEGINNING = r"(?<![0-9A-Za-z])(?=[0-9a-fA-Ft][0-9a-fA-Fm][0-9a-fA-Fp]|[0-9a-f]{2}/)"
_WHOLE = re.compile(_HASH, re.ASCII)
#: A running number: behind a separator at the end of a name, or before the ending of a script.
_RUNNING = re.compile(
    r"(?<=[A-Za-z)\]*][_#-])(?<!\d[eE]-)(?:0|[1-9]\d{0,5})(?=(?:\.(?:sh|slurm|sbatch|job|bash|py))?\Z)",
    re.ASCII,
)
#: Characters of a field that are looked at, and of the name of an application.
_LONGEST, _NAME_LENGTH = 4096, 100
_PROCESS = r"(?P<process>\S++)"
_RULE = rf"(?P<process>(?:(?!\.(?:\d+|{UUID})\.sh)\S)+)"


def _expression(*parts: str) -> re.Pattern[str]:
    volatile = f"{_BEGINNING}(?:{'|'.join(parts)})(?![0-9A-Za-z])"
    return re.compile(f"{_KEPT}|{volatile}", re.ASCII)


_VOLATILE, _OF_FOLDERS = _expression(*_PARTS, _COUNTER), _expression(*_PARTS)


def template(text: str) -> str:
    """Put a star in place of each volatile part.

    >>> template("align-5f0c954e-6a1a-4d1c-9f5e-0a1b2c3d4e5f"), template("/tmp/tmpab12cd34/in.dat")
    ('align-*', '/tmp/*/in.dat')
    >>> template("plot_2024-05-31 3f9a2bc 500 deadbeef case-12 run_0007")
    'plot_* * 500 deadbeef case-12 run_*'
    >>> template("--lr=0.001 --dt 2.005e-007 dt0.0005.in run2.001.dat")
    '--lr=0.001 --dt 2.005e-007 dt0.0005.in run2.*.dat'
    """
    return _cut(_VOLATILE, text)


def name_template(name: str) -> str:
    """Put stars into a name, also for a running number without zeros at its end.

    A name that is nothing but a hash stays: those of whom names are hidden.

    >>> name_template("run_3f9a2bc"), name_template("3f9a2bc07d1e55")
    ('run_*', '3f9a2bc07d1e55')
    >>> name_template("sweep_17"), name_template("chunk-8.sh"), name_template("wrf4")
    ('sweep_*', 'chunk-*.sh', 'wrf4')
    """
    return name if _WHOLE.fullmatch(name) else _RUNNING.sub("*", template(name))


def folder_template(folder: str) -> str:
    """Put a star in place of each volatile part of a folder, but for counters.

    Numbered folders hold one problem each.

    >>> folder_template("/scratch/3f/9a2bc07d1e55/case_001")
    '/scratch/*/case_001'
    """
    return _cut(_OF_FOLDERS, folder)


def _cut(expression: re.Pattern[str], text: str) -> str:
    return expression.sub(_star, text[:LONGEST]) + text[LONGEST:]


def _star(match: re.Match[str]) -> str:
    return match["kept"] or "*"


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
            "comment": r"rule_(?P<process>(?:(?!_wildcards_)\S)+)(?:_wildcards_(?P<sample>.*))?",
        },
        (
            ("command", r" --attempt (?P<attempt>\d{1,6})"),
            ("command", r" --snakefile '?(?P<workflow>[^\s']{1,300})"),
        ),
    ),
    # Up to release 7, with --cluster: the name is that of the script.
    *(
        Engine(
            "snakemake", (field, "snakejob."), {field: rf"snakejob\.{_RULE}\.(?:\d++|{UUID})\.sh"}
        )
        for field in ("name", "script")
    ),
    Engine(
        "nextflow",
        ("name", "nf-"),
        {"name": r"nf-(?P<process>(?:(?!_\().)+)(?:_\((?P<sample>[^)]*+).*)?"},
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
        {"name": r"parsl\.(?P<process>(?:(?!\.block-)\S)+)\.block-\S++"},
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
        {"script": r"(?P<process>(?:(?!\.job\d)\S)+)\.job(?P<attempt>\d{1,6})"},
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
