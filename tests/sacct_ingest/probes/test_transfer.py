"""Real transfers over a link whose rate is known, and what is learnt from them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from predictor.forecasts.transfer_time import transfer_time
from predictor.types import Verdict
from sacct_ingest.records import Probe, Resource
from tests.sacct_ingest.probes import slow_link
from tests.sacct_ingest.probes.slow_link import ADDRESSES, Hosts
from tests.sacct_ingest.probes.test_network import FAR, KEY

SEND = """
import dataclasses, json, sys
from pathlib import Path
from sacct_ingest.probes.probe_settings import Member, ProbeSettings
from sacct_ingest.probes.transfer_probe import measure_transfer
host, key, file = sys.argv[1:]
for line in sys.stdin:
    found = measure_transfer("near", Member("far", host), Path(file), ProbeSettings(timeout_s=60),
                             key=key.encode())
    print(json.dumps([dataclasses.asdict(each) for each in found]), flush=True)
"""
SIZE = 1_000_000


class Sender:
    """A process on the near host that probes and sends whenever it is told to."""

    def __init__(self, hosts: Hosts, file: Path) -> None:
        argv = hosts.command(
            hosts.near, sys.executable, "-c", SEND, ADDRESSES[1], KEY, str(file)
        )  # fmt: skip
        self._process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def send(self) -> list[Probe]:
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        result = json.loads(self._process.stdout.readline())
        return [Probe(**each | {"resource": Resource(each["resource"])}) for each in result]

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


def test_transfers_of_a_changing_link_are_learnt(tmp_path):
    if reason := slow_link.missing():
        pytest.skip(reason)
    file = tmp_path / "file"
    file.write_bytes(bytes(SIZE))
    with slow_link.limited(20, burst_kb=32) as hosts:
        argv = hosts.command(hosts.far, sys.executable, "-c", FAR, ADDRESSES[1], KEY)
        with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as far:
            sender = Sender(hosts, file)
            try:
                assert far.stdout.readline() == "ready\n"
                series = learnt(hosts, sender)
            finally:
                sender.close()
                far.kill()
    transfers = [each for each in series if each.resource is Resource.TRANSFER]
    assert all(each.size_bytes == SIZE and each.value for each in transfers)
    last = transfers[-1]
    before = [each for each in series if each.at_s < last.at_s]
    made = transfer_time(before, SIZE, "near", "far", now_s=last.at_s)
    raw = transfer_time(
        [each for each in before if each.resource is not Resource.TRANSFER],
        SIZE, "near", "far", now_s=last.at_s,
    )  # fmt: skip
    assert (made.method, raw.method) == ("AdRM", "RBW")
    # 8 Mbit at 10 to 20 Mbit/s; a busy machine makes transfers slower, never faster than the link.
    assert made.time_s > 0.25
    # Half of a probe passes at once, so that it seems twice as fast as the link is.
    assert raw.time_s < made.time_s
    assert made.low_s < made.time_s < made.high_s
    assert (made.verdict, made.transfers) == (Verdict.DOUBTFUL, 5)


def learnt(hosts: Hosts, sender: Sender) -> list[Probe]:
    """Probe and send at each of some rates; give all measurements."""
    series: list[Probe] = []
    for rate_mbit in (20, 10, 16, 12, 18, 15):
        slow_link.set_rate(hosts, rate_mbit, burst_kb=32)
        series += sender.send()
    return series
