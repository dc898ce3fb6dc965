"""One job request with all data on it at that moment."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec
from msgspec.structs import replace

from predictor.table import for_limit, for_type
from predictor.types import PredictionTable
from sacct_ingest.records import Identity
from sacct_ingest.runs.attributes import attributes
from sacct_ingest.runs.layout import Unit
from sacct_ingest.runs.sharing import SharedTag
from sacct_ingest.scripts.signature import identity_of_request, words_of_request
from slurm_plugin.config.setting_types import Trust
from slurm_plugin.config.settings import JobSettings
from slurm_plugin.decision.allowed_counts import Request
from slurm_plugin.decision.eligibility import limit_of
from slurm_plugin.protocol.reasons import Reason
from slurm_plugin.protocol.request_messages import Job
from slurm_plugin.slurm.cluster_state import Partition
from slurm_plugin.slurm.partition_view import memory_bytes


@dataclass(frozen=True, slots=True)
class PartitionContext:
    """Where a job may run: nodes of one type, and the partition that has them, if there is one."""

    node_type: str
    partition: str = ""


class DecisionContext(msgspec.Struct, frozen=True):
    """A job with all data on it at the moment of its submission."""

    job: Job
    identity: Identity
    site: JobSettings
    request: Request
    table: PredictionTable | None
    partition: Partition | None  #: None: unknown, or several
    now_s: float
    node_type: str = ""  #: of the nodes it may get; empty: unknown, or they differ
    unready: bool = False  #: its nodes are not counted yet, so that the partition is left out
    sized: Partition | None = None  #: the partition in the unit of the table, where that is no node

    @property
    def place(self) -> Partition | None:
        """The partition, counted as the request is."""
        return self.partition if self.request.unit is Unit.NODES else self.sized

    def on(self, node_type: str) -> "DecisionContext":
        """Give the same job on nodes of this type."""
        table = self.table
        if table is None or not (table.by_type or table.at_limits):
            return replace(self, node_type=node_type) if node_type else self
        table = for_limit(for_type(table, node_type), self.request.limit_s)
        return replace(self, table=table, node_type=node_type)


def identity_of(job: Job) -> Identity:
    """Recognise a job by what is submitted."""
    return identity_of_request(
        user=job.user_name,
        name=job.name,
        comment=job.comment,
        script=job.script,
        argv=job.argv,
        work_dir=job.work_dir,
    )


def shared_by(tags: Sequence[SharedTag], identity: Identity, account: str) -> dict[str, SharedTag]:
    """Tags that the user of a job shares with others, by their key.

    account: the job's, as the accounting has it.
    """
    application = identity.application
    if not application:
        return {}
    return {
        one.key(application): one
        for one in tags
        if one.covers(application) and one.admits(identity.user, account)
    }


def distrust(
    table: PredictionTable | None,
    site: JobSettings,
    *,
    user: str,
    shared: Mapping[str, SharedTag],
    own_runs: int,
    off: bool,
) -> Reason | None:
    """Say why a prediction is only observed: not the user's own, of few runs, or often wrong.

    shared: what `shared_by` gives for the job.
    own_runs: fewer finished runs change nothing.
    off: whether what came of it switched it off.
    """
    if site.trust is Trust.OFF:
        return Reason.DISTRUSTED
    if table is None:
        return None
    decides = table.key in shared and shared[table.key].decide
    if not (decides or (user and table.owner == user)):
        return Reason.OTHERS_RUNS
    if table.runs < own_runs:
        return Reason.FEW_OWN_RUNS
    return Reason.OUT_OF_BAND if off and site.trust is Trust.AUTO else None


def attributes_of(
    job: Job, partition: Partition | None, script: str, account: str
) -> dict[str, str]:
    """Give the attributes of a request by name, as its run will have them in the accounting.

    partition: whose default limit and memory hold where the job gives none.
    script: key of its script.
    """
    return attributes(
        words_of_request(job.script, job.argv, job.work_dir),
        account=account,
        limit_s=limit_of(job, partition),
        mem_node_bytes=memory_bytes(job, partition),
        work_dir=job.work_dir,
        script=script,
        name=job.name,
        comment=job.comment,
        export=job.export,
        array=job.array_inx.partition("%")[0],
    )
