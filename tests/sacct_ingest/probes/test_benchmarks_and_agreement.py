"""What the tools print, read back; and the script that runs them."""

import json
import os
import stat
import subprocess

import pytest

from sacct_ingest.probes.agreement import MEASURES, type_profiles
from sacct_ingest.probes.benchmarks import BenchmarkPlan, read, script
from sacct_ingest.records import NodeProfile

CPU = "sysbench 1.0.20\n\nCPU speed:\n    events per second:   {}\n\nGeneral statistics:\n"
MEMORY = "Total operations: 9 (8.1 per second)\n\n12288.00 MiB transferred ({} MiB/sec)\n"
FIO = json.dumps(
    {
        "fio version": "fio-3.33",
        "jobs": [
            {"jobname": "write", "read": {}, "write": {"bw_bytes": 300_000_000}},
            {"jobname": "read", "read": {"bw_bytes": 500_000_000}, "write": {}},
            {"jobname": "latency", "read": {"clat_ns": {"mean": 90_000.0}}, "write": {}},
        ],
    },
    indent=2,
)
IPERF = json.dumps(
    {
        "end": {
            "streams": [{"sender": {"min_rtt": 250, "mean_rtt": 400}}],
            "sum_received": {"bits_per_second": 8e8},
        }
    },
    indent="\t",
)


def output(*sections):
    facts = "@@nimo fact job 42\n@@nimo fact cpus 16\n@@nimo fact model AMD EPYC 7763\n"
    parts = (f"@@nimo begin {n}\n{text}\n@@nimo end {n} {status}\n" for n, text, status in sections)
    return facts + "".join(parts)


def named(text):
    return read(text, cluster="pine", node="n1", at_s=5.0)


def test_the_best_of_all_repeats_is_retained():
    profile = named(
        output(
            ("cpu", CPU.format(900), 0),
            ("cpu", CPU.format(1000), 0),
            ("cpu_all", CPU.format(15000), 0),
            ("memory", MEMORY.format(20000), 0),
            ("memory_random", MEMORY.format(100), 0),
            ("memory_random", MEMORY.format(80), 0),
            ("disk", f"fio: this is a note\n{FIO}", 0),
            ("network", IPERF, 0),
            ("network_latency", IPERF, 0),
        )
    )[0]
    assert (profile.node, profile.job_id, profile.cpus, profile.error) == ("n1", 42, 16, "")
    assert profile.cpu_events_per_s == 1000
    assert profile.cpu_all_events_per_s == 15000
    assert profile.mem_bandwidth_bytes_per_s == 20000 * 2**20
    assert profile.mem_latency_s == pytest.approx(8 / (100 * 2**20))
    assert profile.disk_write_bytes_per_s == 3e8
    assert profile.disk_read_bytes_per_s == 5e8
    assert profile.disk_latency_s == pytest.approx(9e-5)
    assert profile.net_bandwidth_bytes_per_s == 1e8
    assert profile.net_latency_s == pytest.approx(250e-6)


def test_the_cpu_is_named():
    assert named(output())[1] == "AMD EPYC 7763"


def test_what_failed_says_why_and_the_rest_counts():
    profile = named(
        output(
            ("disk", "fio: looks like your file system does not support direct=1\nerr=22", 1),
            ("network", '{\n"error": "unable to connect to server: Connection refused"\n}', 0),
            ("cpu", CPU.format(1000), 0),
        )
    )[0]
    assert profile.cpu_events_per_s == 1000
    assert profile.disk_read_bytes_per_s is None
    assert "disk: fio: looks like" in profile.error
    assert "network: " in profile.error
    assert "Connection refused" in profile.error


def test_a_job_that_did_not_run_is_reported_with_what_srun_said():
    profile = named("srun: error: Unable to allocate resources: Invalid account\n")[0]
    assert profile.error == (
        "nothing came back: srun: error: Unable to allocate resources: Invalid account"
    )


def test_a_job_that_was_stopped_keeps_what_it_had():
    cut = output(("cpu", CPU.format(7), 0)) + "@@nimo begin disk\nslurmstepd: error: TIME LIMIT\n"
    profile = named(cut)[0]
    assert profile.cpu_events_per_s == 7
    assert profile.error == "broke off: slurmstepd: error: TIME LIMIT"


def test_tools_that_a_node_lacks_are_named_with_the_fix(tmp_path):
    for name in ("sed", "head", "nproc", "sh", "rm"):
        (tmp_path / name).symlink_to(f"/usr/bin/{name}")
    done = subprocess.run(
        ["/bin/sh", "-c", script(BenchmarkPlan(network_host="x"))],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    error = named(done.stdout)[0].error
    for tool in ("sysbench", "fio", "iperf3"):
        assert f"{tool} is missing: install it there (apt-get install {tool}" in error
    assert error.count("sysbench is missing") == 1


def test_a_server_that_serves_another_node_is_waited_for(tmp_path):
    busy = tmp_path / "iperf3"
    busy.write_text(
        "#!/bin/sh\n"
        f'echo x >>{tmp_path}/tries\n[ "$(wc -l <{tmp_path}/tries)" -gt 1 ] || '
        "{ echo 'error - the server is busy running a test'; exit 1; }\n"
        f"cat <<'END'\n{IPERF}\nEND\n"
    )
    busy.chmod(busy.stat().st_mode | stat.S_IXUSR)
    done = subprocess.run(
        ["/bin/sh", "-c", script(BenchmarkPlan(parts=("network",), network_host="x"))],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    profile = named(done.stdout)[0]
    assert (profile.net_bandwidth_bytes_per_s, profile.error) == (1e8, "")


def test_what_is_not_asked_for_is_not_run():
    text = script(BenchmarkPlan(parts=("memory",)))
    assert "sysbench memory" in text
    assert "sysbench cpu" not in text
    assert "fio" not in text
    assert "iperf3 -c" not in script(BenchmarkPlan(network_host=""))


def nodes(*speeds, kind="epyc"):
    return [
        NodeProfile(cluster="pine", node=f"n{i}", node_type=kind, at_s=1.0, cpu_events_per_s=speed)
        for i, speed in enumerate(speeds, 1)
    ]


def only(profiles, **given):
    (kind,) = type_profiles(profiles, **given)
    return kind


def outliers(*speeds):
    return [each.node for each in only(nodes(*speeds)).outliers]


def test_a_type_is_what_its_nodes_agree_on():
    kind = only(nodes(100.0, 101.0, 99.0, 50.0))
    assert kind.nodes == ("n1", "n2", "n3", "n4")
    assert kind.values == {"cpu_events_per_s": 100.0}
    (slow,) = kind.outliers
    assert (slow.node, slow.measure, slow.value) == ("n4", "cpu_events_per_s", 50.0)
    assert slow.ratio == pytest.approx(50 / 99.5)


def test_small_differences_are_tolerated_larger_ones_are_not():
    assert outliers(100.0, 100.0, 100.0, 91.0) == []
    assert outliers(100.0, 100.0, 100.0, 89.0) == ["n4"]
    assert outliers(100.0, 100.0, 100.0, 111.0) == ["n4"]


def test_where_all_differ_nobody_stands_out():
    assert only(nodes(60.0, 80.0, 100.0, 120.0, 140.0)).outliers == ()


def test_of_two_that_differ_both_are_named():
    assert outliers(100.0, 80.0) == ["n1", "n2"]
    assert outliers(100.0, 95.0) == []
    assert only(nodes(100.0, 80.0)).values == {"cpu_events_per_s": 90.0}


def test_one_node_and_none_measured():
    assert outliers(100.0) == []
    assert only(nodes(None, None)).values == {}
    assert outliers(None, 100.0, 100.0, 50.0) == ["n4"]


def test_types_are_not_held_against_each_other():
    kinds = type_profiles([*nodes(100.0, 100.0), *nodes(50.0, 50.0, kind="arm")])
    assert [(kind.node_type, kind.values["cpu_events_per_s"]) for kind in kinds] == [
        ("arm", 50.0),
        ("epyc", 100.0),
    ]
    assert not any(kind.outliers for kind in kinds)


def test_all_figures_of_a_profile_are_compared():
    figures = {
        name
        for name in NodeProfile.__dataclass_fields__
        if name.endswith("_s") and name not in ("at_s",)
    }
    assert figures == set(MEASURES)
