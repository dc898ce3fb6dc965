"""Each parser is fed the worst 128 KiB that we know for it, and has 1.5 s of processor time.

In proportion to its length the slowest of these texts takes 0.1 s; with its square the quickest
expression takes three.
"""

import re
import signal
from contextlib import suppress
from functools import partial
from importlib import import_module
from itertools import count
from pathlib import Path

import pytest

from sacct_ingest.errors import NimoError

SIZE = 128 * 1024
UUID = "5f0c954e-6a1a-4d1c-9f5e-0a1b2c3d4e5f"


def full(unit, *, before="", after=""):
    return before + unit * ((SIZE - len(before) - len(after)) // len(unit)) + after


#: Module, the function that reads a text, and its worst texts.
PARSERS = [
    (
        "sacct_ingest.text.time_spec",
        lambda m: partial(m.parse_time, now_s=0),
        [
            full(" ", before="now+1", after="x"),
            full("1 ", before="now+", after="x"),
            full(" ", before="now", after="x"),
            full(" ", before="1:00", after="x"),
            full("1"),
            full("T"),
        ],
    ),
    (
        "sacct_ingest.text.tag",
        lambda m: m.parse_tag.__wrapped__,
        [full("|nimo:"), full(" nimo:"), full("nimo:,", before=" "), full("a,", before="nimo:")],
    ),
    (
        "sacct_ingest.scripts.job_script",
        lambda m: m.parse_script,
        [
            full('\\"', before="#SBATCH "),
            full("'", before="#SBATCH "),
            full("v", before="#SBATCH -"),
            full("--a ", before="#SBATCH "),
            full(" ", before="#SBATCH -N 2", after="x"),
            full("#SBATCH -N 2-4:2 \n"),
            full("#SBATCH hetjob\n"),
            full("\n"),
            full("#"),
            full("true\n"),
        ],
    ),
    (
        "sacct_ingest.scripts.job_script",
        lambda m: lambda text: m.parse_command_line(m.split_submit_line(text)),
        [full("-N ", before="sbatch "), full(": ", before="sbatch "), full("--n ", before="srun ")],
    ),
    (
        "sacct_ingest.text.hostlist",
        lambda m: m.expand,
        [
            "n[1-1000000000]",
            "n[1-65537]",
            full("[1-2]"),
            full("["),
            full("]"),
            full("n[1-65536],"),
            full("1,", before="n[", after="1]"),
            full("a,"),
            full("9", before="n[1-", after="]"),
        ],
    ),
    (
        "sacct_ingest.text.hostlist",
        lambda m: lambda text: m.NodeNames(["n7", "n100000000000000001"]).named(text),
        ["n[1-1000000000]", "n[1-1000000000000000]", full("n[1-65536],"), full("[1-2]")],
    ),
    (
        "sacct_ingest.text.hostlist",
        lambda m: m.count_indexes,
        ["0-999999999999999999", full("0-9,"), full("9"), full("0-9:0,"), full("9", before="0-9:")],
    ),
    *(
        (
            "sacct_ingest.text.slurm_text",
            lambda m, name=name: getattr(m, name),
            [full("1"), full("1-"), full(":1", before="1"), full("9", before="1_["), full("=1,")],
        )
        for name in (
            *("parse_duration", "parse_time_limit", "parse_size", "parse_tres", "parse_job_id"),
            "parse_epoch",
        )
    ),
    (
        "sacct_ingest.scripts.script_sizes",
        lambda m: m.fixed_sizes.__wrapped__,
        [
            full("srun "),
            full("mpirun "),
            full("torchrun -n "),
            full("srun;"),
            full("-1", before="srun ", after=" -n 4"),
            full("a", before="torch.distributed."),
            full(" ", before="numberOfSubdomains"),
        ],
    ),
    (
        "sacct_ingest.scripts.script_sizes",
        lambda m: m.task_multiple.__wrapped__,
        [full("KPAR "), full(" ", before="KPAR"), full("-nk "), full("-"), full("KPAR=")],
    ),
    *(
        (
            f"sacct_ingest.scripts.{module}",
            lambda m, name=name: getattr(m, name),
            [*map(full, ("a1", "0", "tmp", "/0", "1a-", "ab/", "2026-01-01 ", "0a0a0a0 ", UUID))],
        )
        for module, name in (("signature", "template"), ("engines", "folder_template"))
    ),
    (
        "sacct_ingest.scripts.engines",
        lambda m: lambda text: [
            m.engine_job(text, text, ("--wrap", text)),
            m.engine_job(UUID, text, ("--wrap", text)),
            m.engine_job(text, "", (text,)),
        ],
        [
            *(full(one, before="rule_") for one in ("_wildcards", "a", " nimo:")),
            *(full(one, before="nf-") for one in ("_(", "a")),
            *(full(one, before="cromwell_") for one in ("/a", f"/{UUID}", "/shard-1")),
            *(full(one, before="submission_file_") for one in ("a", ".sh")),
            *map(full, (" --attempt ", " --snakefile 'a", ".job", "/dashboard/", "parsl.")),
            full("1", before="g"),
            full("1.", before="job.1"),
        ],
    ),
    (
        "sacct_ingest.text.admin_comment",
        lambda m: m.decision_id_in,
        [full(" NIMO1:0"), full("NIMO1:"), full(" ")],
    ),
    (
        "sacct_ingest.sources.swf",
        lambda m: lambda text: m.machine_nodes([text]),
        [
            full(" ", before="; Queue: x", after="x"),
            full(" x", before=";"),
            full("1", before=";Queue:"),
        ],
    ),
    (
        "sacct_ingest.sources.swf",
        lambda m: lambda text: m.looks_like_swf(text.encode()),
        [full("1 "), full("1 ", after="x"), full(" "), full("1")],
    ),
    (
        "sacct_ingest.probes.probe_settings",
        lambda m: m.member,
        [full("a"), full("a", after="="), full("[", before="a=")],
    ),
]  # fmt: skip


def takes_little(parse, text):
    """Fail where a parser takes too long; that it refuses the text is an answer, too."""
    before = signal.signal(signal.SIGVTALRM, lambda *_: pytest.fail("too much processor time"))
    signal.setitimer(signal.ITIMER_VIRTUAL, 1.5)
    try:
        with suppress(ValueError, NimoError):
            parse(text)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


@pytest.mark.parametrize(
    ("name", "parser", "text"),
    [(name, parser, text) for name, parser, texts in PARSERS for text in texts],
    ids=map("{}".format, count()),
)
def test_the_worst_text_takes_time_in_proportion_to_its_length(name, parser, text):
    takes_little(parser(import_module(name)), text)


@pytest.mark.parametrize("package", ["sacct_ingest", "predictor", "slurm_plugin"])
def test_no_group_is_repeated_possessively(package):
    # In Debian 12's Python 3.11.2 a possessively repeated group that can match in several ways
    # fails to match at all (python/cpython#106052, fixed in 3.11.5).
    folder = Path(__file__).parents[2] / package
    repeated = re.compile(r"\)(?:[+*?]|\{[0-9,]*\})\+")
    found = {
        path.name: repeated.findall(path.read_text())
        for path in folder.rglob("*.py")
        if repeated.search(path.read_text())
    }
    assert found == {}
