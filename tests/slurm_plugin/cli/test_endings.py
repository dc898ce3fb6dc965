"""What endings are evidence of, through ingest, fit, advice and export: random histories.

Of each history all that is said is held against the plain list of its starts: what the accounting
has of a start is what it took, or at least took.
"""

import csv
import io
import json
import re
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from sacct_ingest.records import JobState, Says
from slurm_plugin.cli.advise import main as advise
from slurm_plugin.cli.nimo import main

COLUMNS = (
    *("JobIDRaw", "Cluster", "User", "State", "ExitCode", "Submit", "Eligible", "Start", "End"),
    *("ElapsedRaw", "TimelimitRaw", "NNodes", "NCPUS", "ReqCPUS", "ReqMem", "MaxRSS", "JobName"),
    *("SubmitLine", "WorkDir", "Comment", "Partition", "Account"),
)
FIRST_S = 1_790_000_000
LIMIT_MIN = 120
GIB = 2**20  #: in KiB, as MaxRSS is written
ENDINGS = [
    *(state for state in JobState if state.run_time is not Says.NOTHING),
    *(JobState.FAILED, JobState.OUT_OF_MEMORY),
]
#: How often starts end otherwise, and how: from none to nearly all.
START = st.tuples(
    st.sampled_from(ENDINGS),
    st.integers(61, 60 * LIMIT_MIN),
    st.sampled_from([1, 1, 1, 2]),
    st.integers(GIB // 2, 3 * GIB),
)
COMPLETED = st.tuples(
    st.just(JobState.COMPLETED), st.integers(600, 700), st.just(1), st.integers(GIB, GIB + 999)
)
HISTORIES = st.lists(st.one_of(COMPLETED, START), min_size=6, max_size=40)
#: Quantiles that an export covers.
SHARES = st.sampled_from([0.5, 0.8, 0.95])
RULE = settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def rows_of(history, tag="", name="solve"):
    """Rows of sacct; a start that ended at its limit ran for all of it."""
    for number, (state, drawn_s, nodes, memory) in enumerate(history):
        elapsed_s = 60 * LIMIT_MIN + 3 if state is JobState.TIMEOUT else drawn_s
        start_s = FIRST_S + 40_000 * number
        yield dict(
            zip(
                COLUMNS,
                (
                    *(100 + number, "pine", "ada", state.value),
                    "1:0" if state is JobState.FAILED else "0:0",
                    *(start_s - 30, start_s - 30, start_s, start_s + elapsed_s, elapsed_s),
                    *(LIMIT_MIN, nodes, 8 * nodes, 8 * nodes, f"{4 * nodes}G", f"{memory}K"),
                    *(name, "sbatch solve.sh", "/home/ada/run"),
                    f"nimo:app={tag}" if tag else "",
                    *("batch", "phys"),
                ),
                strict=True,
            )
        )


def learned(folder, rows):
    """Store of a history."""
    lines = ["|".join(COLUMNS), *("|".join(str(row[name]) for name in COLUMNS) for row in rows)]
    text = Path(folder, "history.txt")
    text.write_text("\n".join(lines) + "\n")
    store = str(Path(folder, "s.db"))
    assert main(["ingest", "--store", store, str(text)]) == 0
    assert main(["fit", "--store", store]) == 0
    return store


def times_of(rows, nodes):
    """Seconds that starts on a count took, and whether they were cut off."""
    said = [(row, JobState(row["State"]).run_time) for row in rows if row["NNodes"] == nodes]
    return [
        (row["ElapsedRaw"], what is Says.AT_LEAST) for row, what in said if what.value[0] != "n"
    ]


def memory_of(rows):
    """Bytes that starts needed, or at least needed."""
    used = []
    for row in rows:
        if JobState(row["State"]).memory is not Says.NOTHING:
            lacked = row["State"] == "OUT_OF_MEMORY"
            kib = int(row["MaxRSS"][:-1])
            used.append(1024 * (max(kib, 4 * GIB) if lacked else kib))
    return used


@RULE
@given(HISTORIES)
def test_advice_on_random_histories(capsys, history):
    with TemporaryDirectory() as folder:
        rows = list(rows_of(history))
        store = learned(folder, rows)
        Path(folder, "solve.sh").write_text(f"#!/bin/sh\n#SBATCH -N 1 -t {LIMIT_MIN}\nsrun x\n")
        capsys.readouterr()
        words = ["--store", store, "--user", "ada", "--chdir", "/home/ada/run", "--json"]
        code = advise([*words, str(Path(folder, "solve.sh"))])
        out = capsys.readouterr().out
    if code or not out:
        return
    said = json.loads(out)
    for row in said["rows"]:
        times = times_of(rows, row["nodes"])
        assert bool(times) or not row["observed"]
        if row["unbounded"]:
            assert row["high_s"] is row["limit_s"] is None
        elif row["nodes"] == 1 and times:  # other rows are this job on other counts
            cut_off = [time_s for time_s, is_cut in times if is_cut]
            assert 2 * len(cut_off) < len(times)
            assert row["high_s"] >= 0.999 * max(cut_off, default=0)
            if row["limit_s"] is not None:
                outlasted = sum(time_s > row["limit_s"] for time_s, _ in times)
                assert outlasted <= 0.01 * len(times)
    assert {point["nodes"] for point in said["points"]} <= {row["NNodes"] for row in rows}


@RULE
@given(HISTORIES, SHARES)
def test_exports_of_random_histories(capsys, history, share):
    with TemporaryDirectory() as folder:
        rows = list(rows_of(history, "solve"))
        store = learned(folder, rows)
        capsys.readouterr()
        words = ["--store", store, "-u", "ada", "--quantile", str(share)]
        code = main(["export", "json", *words])
        needs = json.loads(capsys.readouterr().out)["applications"] if code == 0 else []
        main(["export", "csv", *words])
        table = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    completed = [row for row in rows if row["State"] == "COMPLETED"]
    assert bool(needs) == (len(completed) >= 5)
    for need, line in zip(needs, table, strict=True):
        times = [*times_of(rows, 1), *times_of(rows, 2)]
        assert line["time_s"] == ("" if need["time_s"] is None else str(need["time_s"]))
        if need["time_s"] is None:
            assert "run time: over" in need["over"]
        else:
            outlasted = sum(time_s > need["time_s"] for time_s, _ in times)
            assert outlasted <= (1 - share) * len(times) + 1e-6
        if 2 * sum(is_cut for _, is_cut in times) >= len(times):
            assert need["median_s"] is None
        used = memory_of(rows)
        if need["mem_bytes"] is not None:
            longer = sum(one > need["mem_bytes"] for one in used)
            assert longer <= (1 - share) * len(used) + 1e-6
        assert need["tasks"] >= 1
        assert {need["cpus_per_task"]} <= {row["NCPUS"] for row in rows}


#: What a job is called by its engine; run time in minutes; memory of its first attempt in MiB, and
#: of the second where that is not twice as much.
ENGINES = {
    "snakemake": (
        "snakejob.solve.7.sh",
        r"runtime: (\d+) \*",
        r"mem_mb: (?P<first>\d+)(?: if attempt == 1 else (?P<second>\d+))?",
    ),
    "nextflow": (
        "nf-SOLVE_(7)",
        r"time = \{.* : (\d+)\.min \}",
        r"memory = \{(?:.*\[(?P<second>\d+)\.MB,)?.* : (?P<first>\d+)\.MB \}",
    ),
}
#: The first attempt is too small for one run in nine, as it is the cheapest.
SHORT_FIRST = [(JobState.COMPLETED, 600, 1, GIB)] * 8 + [(JobState.REQUEUED, 61, 1, 1_683_573)]


@pytest.mark.parametrize("engine", ENGINES)
@RULE
@example(history=SHORT_FIRST, share=0.95)
@given(history=HISTORIES, share=SHARES)
def test_profiles_of_random_histories(capsys, monkeypatch, engine, history, share):
    name, *patterns = ENGINES[engine]
    # No cluster bounds what is asked for.
    monkeypatch.setenv("PATH", "/nonexistent")
    with TemporaryDirectory() as folder:
        rows = list(rows_of(history, name=name))
        words = ["--store", learned(folder, rows), "-u", "ada", "--quantile", str(share)]
        capsys.readouterr()
        code = main(["export", engine, *words])
        profile = capsys.readouterr().out
        present = Path(folder, "present")
        present.write_text(profile)
        compared = main(["export", engine, *words, "--diff", str(present)])
        last_line = capsys.readouterr().out.splitlines()[-1:]
    completed = [row for row in rows if row["State"] == "COMPLETED"]
    assert (code == 0) == (compared == 0) == (len(completed) >= 5)
    if code:
        return
    runtime, memory = (re.search(pattern, profile) for pattern in patterns)
    times = [*times_of(rows, 1), *times_of(rows, 2)]
    if runtime is None:
        assert "run time: over" in profile
    else:
        outlasted = sum(time_s > 60 * int(runtime[1]) for time_s, _ in times)
        assert outlasted <= (1 - share) * len(times) + 1e-6
    if memory is not None:
        used = memory_of(rows)
        # The first attempt is the cheapest; the second is enough.
        second = int(memory["second"] or 2 * int(memory["first"]))
        longer = sum(one > 2**20 * second for one in used)
        assert longer <= (1 - share) * len(used) + 1e-6
    assert last_line[0].lower().startswith("solve: ")
