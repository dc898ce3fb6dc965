"""An application that is asked about by its name: its usual job, and what that asks for."""

from collections.abc import Sequence

from predictor.prediction_table import PredictionTable
from predictor.stored_table import decode
from sacct_ingest.errors import NoHistory
from sacct_ingest.scripts.job_script import parse_script
from sacct_ingest.store import Store
from slurm_plugin.decision.submitted_job import SubmittedJob
from slurm_plugin.protocol.advice_messages import Advice, UsualRequest
from slurm_plugin.slurm.cluster_state import Cluster, RequestRules
from slurm_plugin.slurm.job_request import make_job
from slurm_plugin.slurm.slurm_conf import is_own
from slurm_plugin.store_access import last_runs, matching_tables
from slurm_plugin.stored_advice.usual_job import UsualJob, usual_job

#: Options that say how many CPUs a job has.
_OF_CPUS = frozenset({"cpus-per-gpu", "cpus-per-task", "ntasks", "ntasks-per-node"})
RUNS = 30  #: latest ones that say what an application asks for
_TABLES = 1000  #: of one name that are looked at


def usual_job_named(store: Store, name: str, user: str, *, own_only: bool = False) -> UsualJob:
    """Find the job that the runs of an application usually were.

    Of several applications of the name it is the user's own with most runs.

    name: of the application, or the start of its key.
    user: who asks, and would submit the job.
    own_only: whether users must not see each other's jobs.
    Raises NoHistory: no run of such an application has finished.
    """
    for table in _most_runs_first(_named(store, name, user, own_only=own_only), name):
        usual = usual_job(table, last_runs(store, table, RUNS))
        if usual is not None:
            return usual._replace(user=user)
    raise NoHistory(f"no run of {name!r} has finished yet")


def _named(store: Store, name: str, user: str, *, own_only: bool) -> list[PredictionTable]:
    """Read the tables of a name: the user's own, or others' where there are none."""
    rows = store.fits.named(name)
    own = [row for row in rows if is_own(row.level, row.key, row.label, user)]
    visible = own if own or own_only else rows
    return [decode(row.payload) for row in visible[:_TABLES]]


def _most_runs_first(tables: Sequence[PredictionTable], name: str) -> list[PredictionTable]:
    matches = matching_tables(tables, name)
    return sorted(matches, key=lambda table: -table.runs)


def usual_request(usual: UsualJob, advice: Advice, cluster: Cluster | None) -> UsualRequest:
    """Give what a usual job asks for, and what it has once the advised lines are in it.

    cluster: where it is submitted; None: not known.
    """
    lines = (advice.directive, advice.memory_directive, advice.time_directive)
    advised = parse_script("\n".join(["#!/bin/sh", *lines])).options
    named = {option: value for option, value in advised.items() if value is not None}
    options = usual.options | named
    job = make_job(usual._replace(options=options).fields())
    rules = None
    if cluster is not None:
        rules = cluster.partitions.get(job.partition or cluster.default_partition)
    known = RequestRules.of(rules) if rules and rules.is_known else None
    asked = SubmittedJob.of(job, known)
    # Slurm gives one to each node where none are asked for; what runs asked for is not known then.
    says_cpus = not _OF_CPUS.isdisjoint(options) or asked.sizes.of_node.alone
    return UsualRequest(
        options=usual.words,
        nodes=asked.sizes.nodes or None,
        cpus=asked.sizes.cpus or None if says_cpus else None,
        limit_s=asked.limit_s,
    )
