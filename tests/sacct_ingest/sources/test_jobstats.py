"""What jobstats puts into admin_comment: payloads that its own code made of a Prometheus."""

import base64
import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from sacct_ingest.text.admin_comment import measured_in
from tests.sacct_ingest.sources.test_oddities import GIB, read

#: Two nodes with 12 GiB and 9 GiB in use, GPUs busy for 90, 55 and 4 %.
GPUS = (
    "JS1:H4sIAI7kBmsC/5WQSwrDMAxE7+J1FrYsy1YuE0oTgiE/GmfRBt+9zqelKRSajcBo3ozGs+j6shpFPotOLTP04d"
    "IUbdX2t7vINWrDVjtNLhPTWJXvjQLnDBuJhNkOBd9WCWEpM3EdpmSaoHqYiqPnLKTIERiZLDAlsTq84wYd0lZGAygA"
    "gxY2RktJaK2SFl5M8I1/XILvu53hTWpMTJIOzjRkSu6AzPBVkOhcwT8K/bwf43L4Zzwt31uv6To+Afsw7p2/AQAA"
)
CPUS = (
    "JS1:H4sIAI7kBmsC/6tWystPSS1WsqpWyjMGkSX5JYk58bmpuflFlUpWFqYWlpbGJqaWRjpKpcWpKXAJYyMgMDcxML"
    "HQgWopycxNVbIyMjYx0FFKLigFGmlSW4sqaWYAlEsHyxnUAgANoEhSegAAAA=="
)
NOTE = "NIMO1:0123456789ab:n=4"


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (
            {"AdminComment": GPUS},
            {"mem_bytes": 12885950464, "gpu_percent": 149, "gpu_mem_bytes": 61 * GIB},
        ),
        ({"AdminComment": f"{NOTE} {GPUS}", "NTasks": "8"}, {"mem_bytes": 12885950464 // 4}),
        ({"AdminComment": f"{CPUS} {NOTE}"}, {"mem_bytes": 3222274048, "gpu_percent": None}),
        ({"AdminComment": CPUS, "MaxRSS": "4G"}, {"mem_bytes": 4 * GIB}),
        ({"AdminComment": "JS1:Short"}, {"mem_bytes": None, "gpu_percent": None}),
    ],
)
def test_memory_and_gpus(row, expected):
    (run,) = read(row)
    assert (
        structs.asdict(run).items() >= (expected | {"admin_comment": row["AdminComment"]}).items()
    )


def payload(text: str) -> str:
    return "JS1:" + base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


@pytest.mark.parametrize(
    "text",
    [
        '{"nodes":{"n1":{"used_memory":-1}}}',
        '{"nodes":{"n1":{"used_memory":1e400}}}',
        '{"nodes":{"n1":{"gpu_utilization":{"0":"x"}}}}',
        '{"nodes":[]}',
        " " * (40 << 20) + '{"nodes":{}}',  # 40 kB that unpack to 40 MB
    ],
)
def test_what_is_not_a_measurement_is_none(text):
    assert measured_in(payload(text)) is None


def test_what_was_not_measured_everywhere_is_unknown():
    part = '{"nodes":{"n1":{"used_memory":5,"gpu_utilization":{"0":50}},"n2":{}},"gpus":2}'
    found = measured_in(payload(part))
    assert found is not None
    assert set(structs.astuple(found)) == {None}


@given(st.integers(8, len(GPUS) - 1), st.sampled_from("A/=! é"))
def test_a_damaged_payload_never_fails(at, put):
    measured_in(GPUS[:at])
    measured_in(GPUS[:at] + put + GPUS[at + 1 :])
