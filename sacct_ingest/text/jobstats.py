"""What jobstats measured of a job and put into its admin_comment.

``JS1:H4sIA…``: gzipped JSON in base64, a dictionary for each node
(https://github.com/PrincetonUniversity/jobstats, ``Jobstats.report_job_json``).
"""

import base64
import re
import zlib
from typing import Annotated

import msgspec

_PAYLOAD = re.compile(r"(?:^|\s)JS1:(H4sI[A-Za-z0-9+/]+={0,2})(?=\s|$)")
_GZIP = 16 + zlib.MAX_WBITS
#: Ten thousand nodes have less; no more is unpacked.
_MOST_BYTES = 16 << 20


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """Use of memory and GPUs; None where it was not measured on all nodes and GPUs."""

    node_mem_bytes: int | None = None  #: most on any node, all processes and shared memory
    gpu_percent: float | None = None  #: mean over the run, summed over GPUs; 100: of one GPU
    gpu_mem_bytes: int | None = None  #: most of each GPU, summed over GPUs


_Amount = Annotated[float, msgspec.Meta(ge=0, lt=2**48)]


class _Node(msgspec.Struct):
    used_memory: _Amount | None = None
    gpu_utilization: dict[str, _Amount] = {}
    gpu_used_memory: dict[str, _Amount] = {}


class _Job(msgspec.Struct):
    nodes: dict[str, _Node]
    gpus: int = 0


def parse(admin_comment: str) -> Measured | None:
    """Read the last payload in an admin_comment; None where there is none that can be read."""
    if "JS1:" not in admin_comment:
        return None
    payloads = _PAYLOAD.findall(admin_comment)
    try:
        packed = base64.b64decode(payloads[-1], validate=True)
        text = zlib.decompressobj(_GZIP).decompress(packed, _MOST_BYTES)
        job = msgspec.json.decode(text, type=_Job)
    except (IndexError, ValueError, zlib.error, msgspec.MsgspecError):
        return None
    nodes = list(job.nodes.values())
    memory = [node.used_memory for node in nodes if node.used_memory is not None]
    gpu_memory = _total([node.gpu_used_memory for node in nodes], job.gpus)
    return Measured(
        node_mem_bytes=round(max(memory)) if memory and len(memory) == len(nodes) else None,
        gpu_percent=_total([node.gpu_utilization for node in nodes], job.gpus),
        gpu_mem_bytes=None if gpu_memory is None else round(gpu_memory),
    )


def _total(by_node: list[dict[str, float]], gpus: int) -> float | None:
    values = [value for by_gpu in by_node for value in by_gpu.values()]
    return sum(values) if values and len(values) >= gpus else None
