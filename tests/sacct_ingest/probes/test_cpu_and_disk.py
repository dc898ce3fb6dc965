"""The disk probe on the disk that the tests run on."""

import os
from dataclasses import replace

import pytest

from sacct_ingest.errors import ProbeError
from sacct_ingest.probes import local
from sacct_ingest.probes.local import Activity, Hybrid, from_load, from_times, observe, spin
from sacct_ingest.probes.probe_settings import ProbeSettings, cost
from tests.conftest import unavailable

MIB = 1 << 20


def knows_o_direct(folder):
    try:
        os.close(os.open(folder / "direct", os.O_WRONLY | os.O_CREAT | os.O_DIRECT))
    except OSError:
        return False
    return True


def test_a_bounded_file_is_written_read_and_removed(tmp_path, monkeypatch):
    if not knows_o_direct(tmp_path):
        unavailable(f"the file system of {tmp_path} knows no O_DIRECT")
    written, flags = [], []
    real_write, real_open = os.write, os.open

    def write(file, data):
        written.append(real_write(file, data))
        return written[-1]

    def opened(path, how, mode=0o777):
        flags.append(how)
        return real_open(path, how, mode)

    monkeypatch.setattr(os, "write", write)
    monkeypatch.setattr(os, "open", opened)
    written_per_s, read_per_s, latency_s = local.measure_disk(
        tmp_path, size_bytes=3 * MIB + 5, reads=4
    )
    assert sum(written) == 3 * MIB
    assert all(how & os.O_DIRECT for how in flags)
    assert written_per_s > 0
    assert read_per_s > 0
    assert 0 < latency_s < 60
    assert [path.name for path in tmp_path.iterdir()] == ["direct"]


@pytest.mark.parametrize("with_disk", [False, True])
def test_the_cost_counts_each_measurement_of_a_host(tmp_path, monkeypatch, with_disk):
    activity = Activity(cpus=1, load=0.0, running=0.0, user=0.0, system=0.0, idle=1.0)
    monkeypatch.setattr(local, "observe", lambda: activity)
    monkeypatch.setattr(local, "spin", lambda seconds: 1.0)
    monkeypatch.setattr(local, "measure_disk", lambda *_, **__: (1.0, 1.0, 1.0))
    settings = ProbeSettings(period_s=3600.0, disk_folder=tmp_path if with_disk else None)
    probes = local.LocalProbes("here", settings).measure()
    assert cost(settings, 1).probes_per_hour == len(probes)


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(ProbeError, match="No such file"):
        local.measure_disk(tmp_path / "none", size_bytes=MIB, reads=1)


def test_a_full_disk_leaves_nothing(tmp_path, monkeypatch):
    if not knows_o_direct(tmp_path):
        unavailable(f"the file system of {tmp_path} knows no O_DIRECT")
    monkeypatch.setattr(os, "write", lambda file, data: 4096)
    with pytest.raises(ProbeError, match="No space left"):
        local.measure_disk(tmp_path, size_bytes=MIB, reads=1)
    assert [path.name for path in tmp_path.iterdir()] == ["direct"]


def test_a_file_system_that_only_answers_from_its_cache(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(ProbeError, match=r"O_DIRECT.*choose another folder"):
        local.measure_disk(tmp_path, size_bytes=MIB, reads=1)


IDLE = Activity(cpus=1, load=0.0, running=0.0, user=0.0, system=0.0, idle=1.0)
BUSY = Activity(cpus=1, load=1.0, running=1.0, user=1.0, system=0.0, idle=0.0)


def test_an_idle_cpu_is_all_there_and_one_other_process_leaves_half():
    assert from_load(IDLE) == from_times(IDLE) == 1.0
    assert from_load(BUSY) == from_times(BUSY) == 0.5


def test_system_time_is_shared_as_far_as_there_is_user_time():
    router = replace(BUSY, user=0.0, system=1.0)
    assert from_times(router) == 0.0
    assert from_times(replace(BUSY, user=0.5, system=0.5)) == pytest.approx(0.25 + 0.125)


def test_other_cpus_are_free_for_a_new_process():
    half = replace(BUSY, cpus=2, user=0.5, idle=0.5)
    assert from_load(half) == from_times(half) == 1.0
    assert from_load(replace(half, load=3.0)) == 0.5


def test_the_estimate_nearest_to_the_spinning_process_is_taken_and_moved():
    # A process of low priority: the load average counts it, but it gives way.
    polite = replace(BUSY, load=1.0, user=0.0, idle=1.0)
    hybrid = Hybrid()
    hybrid.calibrate(polite, 0.9)
    assert hybrid.estimate(polite) == pytest.approx(0.9)
    assert hybrid.estimate(replace(polite, load=9.0)) == pytest.approx(0.9)
    hybrid.calibrate(replace(BUSY, load=3.0, running=0.0), 0.3)
    assert hybrid.estimate(replace(BUSY, load=4.0, running=0.0)) == pytest.approx(0.25)


def test_estimates_stay_shares():
    hybrid = Hybrid()
    hybrid.calibrate(BUSY, 1.0)
    assert hybrid.estimate(IDLE) == 1.0


def test_this_machine_is_measured():
    observed = observe(0.3)
    assert observed.cpus >= 1
    assert observed.user + observed.system + observed.idle == pytest.approx(1.0)
    assert 0.0 < spin(0.2) <= 1.0


def test_cpus_are_those_of_the_host_as_load_and_times_are(tmp_path, monkeypatch):
    rows = ["cpu  1 0 1 70 0 0 0 0 0 0", *(f"cpu{n} 0 0 0 17 0 0 0 0 0 0" for n in range(4))]
    (tmp_path / "stat").write_text("\n".join([*rows, "intr 5 1", "procs_running 3", ""]))
    (tmp_path / "loadavg").write_text("2.00 1.00 1.00 3/200 77\n")
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0})
    observed = observe(0.0, proc=tmp_path)
    assert (observed.cpus, observed.load, observed.running) == (4, 2.0, 2.0)
    assert from_load(observed) == 1.0


def test_a_stat_file_without_processes_says_so(tmp_path):
    (tmp_path / "stat").write_text("cpu 1 0 1 70 0 0 0 0\n")
    with pytest.raises(ProbeError, match="cannot be read"):
        observe(0.0, proc=tmp_path)


def test_a_machine_without_proc_says_so(tmp_path):
    with pytest.raises(ProbeError, match="cannot be read"):
        observe(0.01, proc=tmp_path)
