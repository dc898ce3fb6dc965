"""Hosts as they are written down, and what probing them costs."""

from pathlib import Path

import pytest

from sacct_ingest.errors import ProbeError
from sacct_ingest.probes.probe_settings import Member, ProbeSettings, cost, find, member


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("n1", Member("n1", "n1")),
        ("n1:99", Member("n1", "n1", 99)),
        ("a=n1.example:99", Member("a", "n1.example", 99)),
        ("a=[fe80::1]:99", Member("a", "fe80::1", 99)),
    ],
)
def test_hosts(text, read):
    assert member(text) == read


@pytest.mark.parametrize("text", ["", "a=", "n1:", "n1:x", "n1:99999", "a b", "a=b=c"])
def test_what_is_no_host(text):
    with pytest.raises(ProbeError):
        member(text)


def test_a_host_must_be_in_its_clique_once():
    clique = [member("a"), member("b")]
    assert find(clique, "b") == 1
    with pytest.raises(ProbeError, match=r"'c' is no host.*a, b.*--name"):
        find(clique, "c")
    with pytest.raises(ProbeError, match="once"):
        find([*clique, member("a=x")], "b")


def test_the_cost_is_that_of_all_pairs():
    settings = ProbeSettings(period_s=360.0, message_bytes=10_000, spin_s=1.8, spin_every=10)
    result = cost(settings, 3)
    assert result.pairs == 6
    assert result.probes_per_hour == 10 * (2 * 6 + 3)
    assert result.network_bytes_per_hour - 10 * 6 * result.bytes_per_pair == (720 + 30) * 900
    assert 10_000 < result.bytes_per_pair < 11_000
    assert result.cpu_share == pytest.approx(0.0005)
    assert result.disk_bytes_per_hour == 0
    with_disk = cost(ProbeSettings(period_s=3600.0, disk_folder=Path("/x"), disk_bytes=1000), 1)
    assert with_disk.disk_bytes_per_hour == 2000 + 32 * 4096
    assert with_disk.pairs == with_disk.network_bytes_per_hour == 0
    with pytest.raises(ProbeError, match="0 hosts"):
        cost(settings, 0)
    with pytest.raises(ProbeError, match="spin_every is 0"):
        cost(ProbeSettings(spin_every=0), 2)
