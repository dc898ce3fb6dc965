"""A request counted in CPUs or GPUs, as the prediction of its application is."""

from msgspec.structs import replace

from predictor.types import PredictionTable
from sacct_ingest.text.tag import Tag
from slurm_plugin.config.setting_types import TimeUse
from slurm_plugin.decision.candidates import Request
from slurm_plugin.decision.context import time_use_of
from slurm_plugin.decision.eligibility import CountRange
from slurm_plugin.decision.sizes import multiple_of, size_option_of, sizes_of
from slurm_plugin.protocol.reasons import Reason
from slurm_plugin.protocol.request_messages import Job
from slurm_plugin.slurm.cluster_state import Partition


def sized_request(
    request: Request,
    job: Job,
    tag: Tag | None,
    table: PredictionTable,
    partition: Partition | None,
    span: CountRange,
    time_use: TimeUse,
) -> Request:
    """Count a request in the unit of a table.

    request: as counted in nodes.
    span: sizes that the job's tag offers, and why they must not be chosen.
    time_use: what the site wants of its time limit.
    """
    own, step = sizes_of(job, partition)[table.unit], multiple_of(job, size_option_of(job, table))
    low, high = (span.low, span.high) if span.high else (own, own)
    unreadable = request.fixed is Reason.DEADLINE_UNREADABLE
    fixed = request.fixed if unreadable else span.fixed
    nearest = min(max(own, low), high)
    return replace(
        request,
        unit=table.unit,
        asked=nearest if nearest == own else max(nearest - nearest % step, low),
        low=low,
        high=high,
        segment=step,
        mem_node_bytes=None,
        fixed=fixed,
        time_use=time_use_of(job, tag, fixed, time_use, sized=True),
    )
