"""Time of I/O in network and at disks, from the kernel's counters."""

import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sacct_ingest.text.time_spec import parse_time
from slurm_plugin.experiments.learn.io_counters import CAPTURE, network_share, parse

MOUNTS = """\
device proc mounted on /proc with fstype proc
device io1:/data mounted on /data with fstype nfs4 statvers=1.1
\topts:\trw,vers=4.2
\tbytes:\t1000 0 0 0 1000 0 1 0
\tper-op statistics
\t        NULL: 1 1 0 44 24 0 0 0 0
\t     GETATTR: {light} {light} 0 4400 2400 0 {light_ms} {light_ms} 0
\t        READ: {reads} {reads} 0 44 1000 {queue} {trips} {trips} 0
device tmpfs mounted on /tmp with fstype tmpfs
"""
DISKS = """\
= diskstats
   8       0 sda {ios} 5 900 {ms} 0 0 0 0 0 50 60
   8       1 sda1 7 0 0 7 0 0 0 0 0 0 0
= io.stat
8:0 rbytes=1 wbytes=2 rios={own} wios=0 dbytes=0 dios=0
"""
NONE = {"light": 0, "light_ms": 0, "reads": 0, "queue": 0, "trips": 0, "ios": 0, "ms": 0, "own": 0}


def share(mounts=True, disks=True, **after):
    shape = (MOUNTS if mounts else "") + (DISKS if disks else "= diskstats\n= io.stat\n")
    return network_share(parse(shape.format(**NONE)), parse(shape.format(**NONE | after)))


def test_reading_beyond_the_round_trip_of_light_operations_is_the_server_s():
    """Ten looks took 20 ms: 2 ms each; 50 reads took 400 ms: 100 ms of them on the way."""
    result = share(disks=False, light=10, light_ms=20, reads=50, trips=400)
    assert result == pytest.approx((20 + 100) / 420)
    # Waiting for the network is the network's.
    result = share(disks=False, light=10, light_ms=20, reads=50, queue=80, trips=400)
    assert result == pytest.approx((20 + 100 + 80) / 500)
    # Reads no slower than light operations, and those without any, are all on the way.
    assert share(disks=False, light=10, light_ms=100, reads=50, trips=400) == 1.0
    assert share(disks=False, reads=50, trips=400) == 1.0


def over_a_link(reads, trip_ms, *, in_flight=1, speed=1000):
    """Share of reads of 1 MiB whose trip took so long, over a link of so many Mbit/s."""
    counters = (
        "device io1:/d mounted on /d with fstype nfs4\n"
        "\txprt:\ttcp 0 0 1 0 24 {sends} {sends} 0 {flying} 0 2 0 0\n\tper-op statistics\n"
        "\t GETATTR: {light} {light} 0 0 0 0 {light_ms} 0\n"
        "\t READ: {reads} {reads} 0 0 {read_bytes} 0 {trips} 0\n"
        "= net\n/sys/class/net/eth0/speed:{speed}\n/sys/class/net/ib0/speed:-1\n"
        "/sys/class/net/eth1/speed:100\n Inter-|   Receive  | Transmit\n"
        "  lo: 99999999999 {zeros} 99999999999 {zeros}\n"
        "eth0: {read_bytes} {zeros} 0 {zeros}\n  eth1: 500 {zeros} 500 {zeros}\n"
    )
    none = dict.fromkeys(
        ("sends", "flying", "light", "light_ms", "reads", "read_bytes", "trips"), 0
    )
    also = {"speed": speed, "zeros": "0 0 0 0 0 0 0"}
    done = {"sends": reads, "flying": reads * in_flight, "light": 100, "light_ms": 20,
            "reads": reads, "read_bytes": reads << 20, "trips": round(reads * trip_ms)}  # fmt: skip
    made = [parse(counters.format(**also, **one)) for one in (none, done)]
    return network_share(*made)


def test_bytes_take_the_link_s_time():
    """1 MiB at 1 Gbit/s takes 8.4 ms, which counted as the server's disk; 16 at a time 134 ms."""
    assert over_a_link(10_000, 8.5) > 0.97
    assert over_a_link(10_000, 134.5, in_flight=16) > 0.97
    # A disk of 10 MiB/s behind it takes 100 ms for each.
    for in_flight in (1, 16):
        share = over_a_link(10_000, 100.0 * in_flight, in_flight=in_flight)
        assert share == pytest.approx(0.084, abs=0.005)
    assert over_a_link(10_000, 8.5, speed=100_000) < 0.05


def test_local_disks_count_in_the_job_s_share_of_what_they_did():
    """The disk took 90 ms for 30 operations, 10 of them the job's."""
    assert share(mounts=False, ios=30, ms=90, own=10) == 0.0
    result = share(light=10, light_ms=20, reads=10, trips=20, ios=30, ms=90, own=10)
    assert result == pytest.approx(40 / 70)


def test_where_nothing_was_counted_nothing_is_available():
    assert share() is None
    assert network_share(parse(""), parse("")) is None
    assert share(mounts=False, ios=30, ms=90) is None  # others' I/O


def test_what_was_counted_before_the_run_is_not_its_own():
    before = parse((MOUNTS + DISKS).format(**NONE | {"light": 5, "light_ms": 500, "reads": 3}))
    after = parse(
        (MOUNTS + DISKS).format(**NONE | {"light": 15, "light_ms": 520, "reads": 53, "trips": 400})
    )
    assert network_share(before, after) == pytest.approx(120 / 420)


@pytest.mark.parametrize("line", ["device", "per-op statistics\n READ: x y", "8:0 rios=a", "= "])
def test_lines_that_are_not_understood_are_left_out(line):
    assert (
        network_share(parse(""), parse(f"{line}\n= diskstats\n{line}\n= io.stat\n{line}")) is None
    )


@pytest.mark.skipif(not Path("/proc/self/mountstats").exists(), reason="not Linux")
def test_this_machine_s_counters_can_be_read():
    argv = ["sh", "-c", CAPTURE]
    text = subprocess.run(argv, check=False, capture_output=True, text=True).stdout
    made = parse(text)
    assert "= diskstats" in text
    assert network_share(made, made) is None


BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 11, 21, 10, 30, 5, tzinfo=BERLIN)


def said(text, now=NOW):
    seconds = parse_time(text, now_s=now.timestamp(), zone=now.tzinfo)
    return datetime.fromtimestamp(seconds, now.tzinfo).strftime("%Y-%m-%d %H:%M:%S")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("now", "2026-11-21 10:30:05"),
        ("now+90", "2026-11-21 10:31:35"),
        ("now+1hour", "2026-11-21 11:30:05"),
        ("now + 2 days", "2026-11-23 10:30:05"),
        ("NOW+1Weeks", "2026-11-28 10:30:05"),
        ("now-30minutes", "2026-11-21 10:00:05"),
        ("16:30", "2026-11-21 16:30:00"),
        ("16:30:20", "2026-11-21 16:30:20"),
        ("9:15", "2026-11-22 09:15:00"),
        ("10:30", "2026-11-22 10:30:00"),
        ("10:31", "2026-11-21 10:31:00"),
        ("12:30 am", "2026-11-22 00:30:00"),
        ("12:30PM", "2026-11-21 12:30:00"),
        ("3:04pm", "2026-11-21 15:04:00"),
        ("midnight", "2026-11-22 00:00:00"),
        ("noon", "2026-11-21 12:00:00"),
        ("elevenses", "2026-11-21 11:00:00"),
        ("fika", "2026-11-21 15:00:00"),
        ("teatime", "2026-11-21 16:00:00"),
        ("today", "2026-11-21 00:00:00"),
        ("tomorrow", "2026-11-22 00:00:00"),
        ("noon tomorrow", "2026-11-22 12:00:00"),
        ("2026-12-24", "2026-12-24 00:00:00"),
        ("2027-01-02T03:04", "2027-01-02 03:04:00"),
        ("2027-01-02T03:04:05", "2027-01-02 03:04:05"),
        ("010227", "2027-01-02 00:00:00"),
        ("0102", "2027-01-02 00:00:00"),
        ("1122", "2026-11-22 00:00:00"),
        ("1/2/27", "2027-01-02 00:00:00"),
        ("12.31.26", "2026-12-31 00:00:00"),
        ("01/02/27-3:04 PM", "2027-01-02 15:04:00"),
        ("11/21-10:31", "2026-11-21 10:31:00"),
        ("11/21-10:29", "2027-11-21 10:29:00"),
        ("0231", "2027-03-03 00:00:00"),
        ("uts1790000000", "2026-09-21 16:13:20"),
    ],
)
def test_points_in_time(text, expected):
    assert said(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        *("", "soon", "25:00", "10:61", "13:00 pm", "13/01", "1/32/26", "01/02/2026"),
        *("now+", "now+5min", "2026-13-01"),
        "Tomorrow",  # the T is taken for the one between date and time
    ],
)
def test_what_slurm_refuses_is_refused(text):
    with pytest.raises(ValueError, match=r"not a (point in )?time"):
        said(text)


def test_an_hour_is_an_hour_when_the_clocks_change():
    # On 25 October 2026 at 3:00 clocks in Berlin go back to 2:00.
    before = datetime(2026, 10, 25, 1, 30, tzinfo=BERLIN)
    seconds = parse_time("now+2hours", now_s=before.timestamp(), zone=BERLIN)
    assert seconds - before.timestamp() == 7200


@given(st.datetimes(datetime(2000, 1, 1), datetime(2099, 12, 31)))  # noqa: DTZ001
def test_iso_times_come_back(moment):
    moment = moment.replace(microsecond=0, tzinfo=UTC)
    assert parse_time(moment.strftime("%Y-%m-%dT%H:%M:%S"), now_s=0, zone=UTC) == moment.timestamp()


@given(st.times(), st.integers(0, 2**31))
def test_a_time_of_day_is_at_most_a_day_ahead(time, now_s):
    result = parse_time(f"{time:%H:%M}", now_s=now_s, zone=UTC)
    now = datetime.fromtimestamp(now_s, UTC)
    ahead = datetime.fromtimestamp(result, UTC) - now.replace(second=0)
    assert timedelta(0) < ahead <= timedelta(days=1)
