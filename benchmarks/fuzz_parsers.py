"""Coverage-guided fuzzing of everything that reads what others wrote (``make fuzz``).

Atheris (libFuzzer for Python) mutates the seeds towards code that was not reached before.  What may
come out of a parser are runs and our own errors, and the good jobs that stand around the fuzzed
bytes must survive.  Each target has a process of its own, since libFuzzer ends its process.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import _bench
import _fuzz_messages

if TYPE_CHECKING:
    from sacct_ingest.job_run import JobRun

PACKAGES = ["sacct_ingest", "slurm_plugin", "predictor"]
NAMES = "JobID|Cluster|JobName|User|UID|State|Submit|Start|End|Timelimit|ReqMem|TotalCPU|ElapsedRaw"
ROW = "{}|c|solve|ann|1001|COMPLETED|50|50|55|1-02:03:04|4Gc|00:01.5|5\n"
SWF = "; Computer: Oak\n; UnixStartTime: 10\n"
SWF_ROW = "{} 100 20 60 8 50 1024 8 300 2048 1 7 4 12 2 1 -1 -1\n"
JOB = (
    '{{"job_id": {}, "cluster": "oak", "name": "solve", "state": {{"current": ["COMPLETED"]}}, '
    '"time": {{"submission": 50, "start": 50, "end": 55, "elapsed": 5, "limit": '
    '{{"set": true, "infinite": false, "number": 5}}}}, '
    '"steps": [{{"step": {{"id": "1.batch"}}}}]}}'
)


def main() -> None:
    """Fuzz each target for a while and say what was reached."""
    parser = _bench.options(__doc__ or "", data="folder with more seeds")
    parser.add_argument("--seconds", type=int, default=30, help="for each target")
    parser.add_argument("--runs", type=int, default=-1, help="inputs for each; -1: time decides")
    parser.add_argument("--only", nargs="*", choices=sorted(TARGETS), help="these targets")
    parser.add_argument("--target", choices=sorted(TARGETS), help=argparse.SUPPRESS)
    parser.add_argument("--corpus", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if importlib.util.find_spec("atheris") is None:
        print("nothing is fuzzed: 'make fuzz' installs atheris")
        return
    seconds = 3 if args.quick else args.seconds
    if args.target:
        _fuzz(args.target, args.corpus, seconds, args.runs)
        return
    chosen = args.only or list(TARGETS)
    rows = [_run(name, seconds, args.runs, args.data) for name in chosen]
    _bench.table(rows, title="Fuzzed parsers")
    _bench.write(args.json, rows=rows)
    if any(row["findings"] for row in rows):
        raise SystemExit(1)


def _run(name: str, seconds: int, runs: int, data: Path | None) -> dict[str, Any]:
    """Fuzz one target in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        corpus = Path(folder)
        for number, seed in enumerate([*SEEDS[name], *_given(data)]):
            (corpus / f"seed{number}").write_bytes(seed)
        argv = [sys.executable, __file__, "--target", name, "--corpus", folder]
        began = time.monotonic()
        done = subprocess.run(
            [*argv, "--seconds", str(seconds), "--runs", str(runs)],
            check=False,
            capture_output=True,
            text=True,
            cwd=folder,
        )
        said = done.stderr + done.stdout
    counts = [int(count) for count in re.findall(r"^#(\d+)\s", said, re.MULTILINE)]
    covered = [int(count) for count in re.findall(r"cov: (\d+)", said)]
    result = done.returncode != 0
    if result:
        print(said[-3000:], file=sys.stderr)
    return {
        "target": name,
        "executions": max(counts, default=0),
        "seconds": round(time.monotonic() - began, 1),
        "edges": max(covered, default=0),
        "edges of the seeds": covered[0] if covered else 0,
        "findings": int(result),
    }


def _given(data: Path | None) -> Iterable[bytes]:
    for path in sorted(data.iterdir()) if data else ():
        if path.is_file():
            yield path.read_bytes()[:4096]


def _fuzz(name: str, corpus: Path, seconds: int, runs: int) -> None:
    import atheris  # noqa: PLC0415 - an extra

    # numpy and scipy behind the predictor are not ours.
    with atheris.instrument_imports(include=PACKAGES):
        target = TARGETS[name]()
    bounds = [f"-max_total_time={seconds}", f"-runs={runs}", "-max_len=4096", "-timeout=20"]
    atheris.Setup(["fuzz", str(corpus), *bounds], target)
    atheris.Fuzz()


def _storable(runs: Iterable[JobRun]) -> Iterator[JobRun]:
    """Give runs back; what is in them has to fit into the columns of any database."""
    from msgspec import msgpack, structs  # noqa: PLC0415

    for run in runs:
        msgpack.encode(run)
        for record in (run, *run.steps):
            for name, value in structs.asdict(record).items():
                number = isinstance(value, int | float)
                assert not number or -(2**63) <= value < 2**63, (name, value)
        yield run


def _text() -> Callable[[bytes], None]:
    """Rows of sacct's text between two good ones."""
    from sacct_ingest.errors import FormatError  # noqa: PLC0415
    from sacct_ingest.sources.opened import decoded  # noqa: PLC0415
    from sacct_ingest.sources.run_source import Tally  # noqa: PLC0415
    from sacct_ingest.sources.sacct_text import read_text  # noqa: PLC0415

    def target(data: bytes) -> None:
        text = f"{NAMES}\n{ROW.format(1)}".encode() + data + f"\n{ROW.format(2)}".encode()
        runs = list(_storable(read_text(decoded(io.BytesIO(text)), Tally())))
        assert [runs[0].job_id, runs[-1].job_id] == [1, 2], runs

    def whole(data: bytes) -> None:
        target(data)
        with contextlib.suppress(FormatError):
            list(_storable(read_text(decoded(io.BytesIO(data)), Tally(), cluster="c")))

    return whole


def _json() -> Callable[[bytes], None]:
    """Elements of a list of jobs between two good ones, and whole documents."""
    from sacct_ingest.errors import FormatError  # noqa: PLC0415
    from sacct_ingest.sources.opened import decoded  # noqa: PLC0415
    from sacct_ingest.sources.run_source import Tally  # noqa: PLC0415
    from sacct_ingest.sources.slurm_json import read_json  # noqa: PLC0415

    def target(data: bytes) -> None:
        parts = (b'{"jobs": [', JOB.format(1).encode(), b",", data, b",", JOB.format(2).encode())
        ids = []
        try:
            runs = read_json(decoded(io.BytesIO(b"".join(parts) + b"]}")), Tally())
            ids.extend(run.job_id for run in _storable(runs))
            list(_storable(read_json(decoded(io.BytesIO(data)), Tally(), cluster="c")))
        except FormatError:
            pass
        assert ids[:1] == [1], ids

    return target


def _swf() -> Callable[[bytes], None]:
    """Lines of a log between two good ones."""
    from sacct_ingest.sources.opened import decoded  # noqa: PLC0415
    from sacct_ingest.sources.run_source import Tally  # noqa: PLC0415
    from sacct_ingest.sources.swf import read_swf  # noqa: PLC0415

    def target(data: bytes) -> None:
        text = f"{SWF}{SWF_ROW.format(1)}".encode() + data + f"\n{SWF_ROW.format(2)}".encode()
        runs = list(_storable(read_swf(decoded(io.BytesIO(text)), Tally())))
        assert [runs[0].job_id, runs[-1].job_id] == [1, 2], runs

    return target


def _saved() -> Callable[[bytes], None]:
    """Files of any bytes, compressed or not."""
    from sacct_ingest.errors import FormatError  # noqa: PLC0415
    from sacct_ingest.sources.run_source import Tally  # noqa: PLC0415
    from sacct_ingest.sources.saved import SavedSacct  # noqa: PLC0415

    path = Path("fuzzed")

    def target(data: bytes) -> None:
        path.write_bytes(data)
        with contextlib.suppress(FormatError):
            list(_storable(SavedSacct(path, cluster="c").read(0, 0, Tally())))

    return target


def _values() -> Callable[[bytes], None]:
    """Single values: what a converter cannot read is a ValueError."""
    from sacct_ingest.sources.columns import COLUMNS  # noqa: PLC0415
    from sacct_ingest.text.slurm_text import parse_job_id, parse_memory_request  # noqa: PLC0415

    converters = list({column.convert for column in COLUMNS})

    def target(data: bytes) -> None:
        text = data.decode(errors="replace")
        readers = (*converters, parse_job_id, parse_memory_request)
        for convert in readers:
            with contextlib.suppress(ValueError):
                convert(text)

    return target


def _requests() -> Callable[[bytes], None]:
    """Read what users write into requests: a ValueError is an answer, and lists stay short."""
    from sacct_ingest.scripts.job_script import (  # noqa: PLC0415
        parse_command_line,
        parse_script,
        split_submit_line,
    )
    from sacct_ingest.scripts.signature import identity_of_line, identity_of_request  # noqa: PLC0415
    from sacct_ingest.text.admin_comment import decision_id_in, parse  # noqa: PLC0415
    from sacct_ingest.text.hostlist import (  # noqa: PLC0415
        MOST_NAMES,
        NodeNames,
        count_indexes,
        expand,
    )
    from sacct_ingest.text.tag import parse_tag  # noqa: PLC0415
    from sacct_ingest.text.time_spec import parse_time  # noqa: PLC0415

    def target(data: bytes) -> None:
        text = data.decode(errors="replace")
        for read in (expand, count_indexes, lambda t: parse_time(t, now_s=0)):
            with contextlib.suppress(ValueError):
                result = read(text)
                assert not isinstance(result, tuple) or len(result) <= MOST_NAMES
        assert NodeNames(["n1", "n02"]).named(text) <= {"n1", "n02"}
        parse_script(text)
        parse_command_line(split_submit_line(text))
        parse_tag(text)
        assert parse(text) is None or parse(text).decision_id == decision_id_in(text)  # type: ignore[union-attr]
        identity_of_line("ada", "wrf", text, text, "/home")
        argv = text.split()
        identity_of_request(user="ada", name="wrf", comment=text, script=text, argv=argv)

    return target


TARGETS: dict[str, Callable[[], Callable[[bytes], None]]] = {
    "text": _text,
    "json": _json,
    "swf": _swf,
    "saved": _saved,
    "values": _values,
    "requests": _requests,
    "messages": _fuzz_messages.messages,
    "hooks": _fuzz_messages.hooks,
}
SEEDS: dict[str, list[bytes]] = {
    "text": [
        ROW.format("6_3").encode(),
        b"7+1|c|a|b|ann|1|CANCELLED by 5|50|Unknown|None|UNLIMITED|4Gn|1-02:03:04|5",
        f"{NAMES}\n{ROW.format(1)}".encode(),
        b"99999999999999999999|c|a|b|1|FAILED|50|50|55|99999999999999999999|1|99999999-1|5",
        b"1|c|two\nlines|ann|1|RUNNING|2025-01-01T00:00:00|Unknown|Unknown|Partition_Limit|||0\n",
    ],
    "json": [JOB.format(3).encode(), json.dumps({"job_id": 5, "job_state": "RUNNING"}).encode()],
    "swf": [SWF_ROW.format(3).encode(), SWF.encode()],
    "saved": [
        f"{NAMES}\n{ROW.format(1)}".encode(),
        f"{SWF}{SWF_ROW.format(3)}".encode(),
        f'{{"jobs": [{JOB.format(1)}]}}'.encode(),
        b"\x1f\x8b\x08\x00",
        b"\xfd7zXZ\x00",
    ],
    "values": [
        *(b"1-02:03:04", b"12:34.567", b"UNLIMITED", b"2147486648Mn", b"4Gc", b"56.06M", b"1:0"),
        *(b"6_[0-3%2].batch", b"2025-09-12T14:06:12", b"cpu=1,fs/disk=5", b"CANCELLED by 5"),
        b"\xd9\xa3",
    ],
    "requests": [
        *(b"n[08-10,12],gpu1", b"r[1-2]n[1-2]", b"1-9:2,20%2", b"now + 2 days", b"01/02-15:00"),
        b"#!/bin/sh\n#SBATCH -N 2-8:2 -J 'big run' # four\n#SBATCH hetjob\nsrun ./solve\n",
        b"sbatch --nodes=2 -t 5 --wrap hostname",
        b"nimo:app=wrf,nodes=2-8",
        b"NIMO1:3f9a0c12b7de:n=4,req=1-8,t=312,lo=290,hi=340,v=reliable,m=enforce,r=cheapest,tl=20",
    ],
    "messages": _fuzz_messages.MESSAGES,
    "hooks": _fuzz_messages.ANSWERS,
}


if __name__ == "__main__":
    main()
