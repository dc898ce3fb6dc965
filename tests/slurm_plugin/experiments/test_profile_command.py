"""Nodes of a real Slurm, benchmarked as jobs; one of them is slowed down and found out."""

import contextlib
import json
import os
import signal
import threading
from pathlib import Path

import pytest

from sacct_ingest.records import NodeProfile
from sacct_ingest.store import Store
from slurm_plugin.cli.nimo import main
from slurm_plugin.config.setting_types import TypeColumn
from slurm_plugin.experiments.profile_command import Node, argv_for, node_type
from tests.conftest import need_in_jobs

SETTINGS = {"seconds": 1, "repeats": 1, "disk_bytes": 4 << 20, "limit_min": 5}


@pytest.fixture(scope="module")
def cluster(slurm):
    need_in_jobs(slurm, "sysbench", "fio", "iperf3")
    return slurm


@pytest.fixture
def config(cluster, tmp_path, monkeypatch):
    path = tmp_path / "nimo.yaml"
    benchmarks = SETTINGS | {"disk_folder": str(cluster.layout.work)}
    path.write_text(
        json.dumps({"store": f"sqlite:///{tmp_path / 'nimo.db'}", "benchmarks": benchmarks})
    )
    monkeypatch.setenv("NIMO_CONFIG", str(path))
    for name, value in cluster.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("socket.gethostname", lambda: "localhost")
    return path


def test_a_node_is_measured_in_all_its_parts_by_a_job(cluster, config, capsys):
    assert main(["profile", "-w", "n1", "-p", "batch", "-o", "node,cpu_events,net_lat"]) == 0, (
        capsys.readouterr()
    )
    table = capsys.readouterr().out
    assert "cpu/s" in table
    assert "net us" in table
    with Store.open(str(config.parent / "nimo.db")) as store:
        (profile,) = store.profiles.latest("nimo")
    measured = [name for name in profile.__dataclass_fields__ if name.endswith("_s")]
    assert [name for name in measured if not getattr(profile, name)] == []
    assert profile.node == "n1"
    assert profile.job_id is not None
    cluster.wait(profile.job_id, accounted=True)
    (job,) = cluster.sacct(
        "-X", "-j", str(profile.job_id), fields=("JobName", "NodeList", "NNodes", "AllocCPUS")
    )
    assert list(job.values()) == ["nimo-profile", "n1", "1", "4"]
    # Nothing stays behind on the disk.
    assert list(cluster.layout.work.glob(".nimo-profile*")) == []


@pytest.fixture
def slowed(cluster):
    """Slow n3 down: the benchmarks of its jobs are stopped nearly all of the time.

    Ten times slower would do on a quiet machine; on a busy one all nodes differ by factors.
    """
    ended = threading.Event()
    thread = threading.Thread(target=hold_back, args=(cluster, "n3", ended))
    thread.start()
    try:
        yield "n3"
    finally:
        ended.set()
        thread.join()


def hold_back(cluster, node, ended):
    with contextlib.suppress(PermissionError):
        # On a busy machine the benchmark would run on while this waits for its turn.
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), -20)
    while not ended.wait(0.01):
        held = benchmarks_on(cluster, node)
        signal_all(held, signal.SIGSTOP)
        ended.wait(0.4 if held else 0.0)
        signal_all(held, signal.SIGCONT)


def signal_all(pids, number):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def benchmarks_on(cluster, node):
    """Give the benchmark processes of our jobs on a node, not those of other clusters."""
    marks = {f"SLURMD_NODENAME={node}".encode(), f"SLURM_CONF={cluster.layout.slurm_conf}".encode()}
    result = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (process / "comm").read_text().startswith("sysbench"):
                environ = set((process / "environ").read_bytes().split(b"\0"))
                if marks <= environ:
                    result.append(int(process.name))
    return result


def test_a_node_that_is_slower_than_its_likes_is_detected(cluster, config, slowed, capsys):
    config.write_text(config.read_text().replace('"repeats": 1', '"repeats": 2'))
    # On a busy machine all nodes may differ too much to tell one from the others: once more then.
    for _ in range(3):
        status = main(["profile", "-w", "n[1-4]", "--only", "cpu", "--json"])
        result = json.loads(capsys.readouterr().out)
        (kind,) = result["types"]
        assert kind["nodes"] == ["n1", "n2", "n3", "n4"]
        ratios = [o["value"] / o["typical"] for o in kind["outliers"] if o["node"] == slowed]
        assert status == bool(kind["outliers"])
        if ratios:
            break
    assert ratios
    assert max(ratios) < 0.9
    # What was stored says the same.
    assert main(["profile", "--show"]) == 1
    assert f"\n{slowed}: " in capsys.readouterr().out


def test_a_node_that_is_down_is_left_out_and_said_to_be(cluster, config, capsys):
    cluster.run("scontrol", "update", "nodename=n4", "state=drain", "reason=test")
    try:
        assert main(["profile", "-w", "n4", "--only", "cpu"]) == 1
    finally:
        cluster.run("scontrol", "update", "nodename=n4", "state=resume")
    assert "n4: not measured: it is drain" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "reported"),
    [([], "which nodes? name them with -w"), (["-w", "n9"], "n9"), (["-p", "none"], "none")],
)
def test_mistakes_are_one_line(config, arguments, reported, capsys):
    assert main(["profile", "--only", "cpu", *arguments]) not in (0, 2)
    assert reported in capsys.readouterr().err


def test_a_job_that_slurm_refuses_is_reported_as_srun_tells_it(cluster, config, capsys):
    assert main(["profile", "-w", "n1", "--reservation", "none", "--only", "cpu"]) == 1
    assert "n1: nothing came back: srun: error: Unable to allocate" in capsys.readouterr().out


NODE = Node(name="n1", state="idle", cpus=64, memory_mib=257_000, features="ib,avx2")


def test_a_benchmark_waits_behind_everybody_and_has_the_node_to_itself():
    options = {"partition": "batch", "account": "", "immediate": "", "nice": 10_000, "time": 7}
    argv = argv_for(NODE, options, "true")
    for option in (
        "--exclusive",
        "--nice=10000",
        "--time=7",
        "--nodelist=n1",
        "--comment=nimo:off",
    ):
        assert option in argv
    assert "--partition=batch" in argv
    assert not any(option.startswith(("--account", "--immediate")) for option in argv)


def test_a_type_is_named_by_its_columns():
    assert node_type(NODE, "EPYC", list(TypeColumn)) == "EPYC, 64 CPUs, 251 GiB, ib,avx2"
    assert node_type(NODE, "EPYC", [TypeColumn.CPU_MODEL]) == "EPYC"
    assert node_type(NODE, "", [TypeColumn.CPU_MODEL]) == "unknown"


def test_profiles_are_shown_as_a_table(tmp_path, monkeypatch, capsys):
    (tmp_path / "none.yaml").write_text("{}")
    monkeypatch.setenv("NIMO_CONFIG", str(tmp_path / "none.yaml"))
    path = tmp_path / "nimo.db"
    Store.open(str(path)).close()
    assert main(["profile", "--show", "--store", str(path)]) == 3
    assert "'nimo lab profile -p PARTITION' measures" in capsys.readouterr().err
    rows = [
        NodeProfile(
            cluster="pine", node=f"n{i}", node_type="epyc", at_s=1.0, mem_latency_s=i * 1e-9
        )
        for i in (100, 101, 102)
    ]
    with Store.open(str(path)) as store:
        store.profiles.add(rows)
    assert main(["profile", "--show", "--store", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines] == [
        ["mem", "ns"],
        ["epyc", "101"],
        ["n100", "100"],
        ["n101", "101"],
        ["n102", "102"],
    ]
    assert main(["profile", "--show", "-P", "--store", str(path)]) == 0
    header, *lines = capsys.readouterr().out.splitlines()
    named = [dict(zip(header.split("|"), line.split("|"), strict=True)) for line in lines]
    assert [line["node"] for line in named] == ["n100", "n101", "n102"]
    assert named[0]["mem latency s"] == "1e-07"
