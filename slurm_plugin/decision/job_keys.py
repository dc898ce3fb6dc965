"""By what a job is recognised, and compared with runs: read from the job as it is submitted."""

from collections.abc import Sequence

from predictor.neighbours import AskedJob, digest, words_of
from sacct_ingest.records import Identity
from sacct_ingest.runs.attributes import attributes as named_attributes
from sacct_ingest.scripts.engines import folder_template, name_template, template
from sacct_ingest.scripts.signature import identity_of_request, words_of_request
from slurm_plugin.decision.eligibility import limit_of
from slurm_plugin.decision.sizes import gpus_of, tasks_of
from slurm_plugin.protocol.request_messages import Job
from slurm_plugin.slurm.cluster_state import RawJob, RequestRules
from slurm_plugin.slurm.footprint import memory_bytes


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


def identity_in_queue(job: RawJob) -> Identity:
    """Recognise a job by what the queue shows of it."""
    return identity_of_request(
        user=job.user,
        name=job.name,
        comment=job.comment,
        script="",
        argv=job.command.split(),
        work_dir=job.work_dir,
    )


def attributes_of(
    job: Job, rules: RequestRules | None, script: str, account: str
) -> dict[str, str]:
    """Give the attributes of a request by name, as its run will have them in the accounting.

    rules: of its partition, whose default limit and memory hold where the job gives none.
    script: key of its script.
    """
    return named_attributes(
        words_of_request(job.script, job.argv, job.work_dir),
        account=account,
        limit_s=limit_of(job, rules),
        mem_node_bytes=memory_bytes(job, rules),
        work_dir=job.work_dir,
        script=script,
        name=job.name,
        comment=job.comment,
        export=job.export,
        array=job.array_inx.partition("%")[0],
        inputs=job.inputs,
    )


def asked_job(job: Job, rules: RequestRules | None, partition: str) -> AskedJob:
    """Give what a request is compared with past jobs by.

    rules: of its partition, whose default limit holds where the job gives none.
    partition: where it runs.
    """
    nodes = job.min_nodes or 1
    return AskedJob(
        nodes=nodes,
        cpus=tasks_of(job) * (job.cpus_per_task or 1),
        gpus=gpus_of(job, nodes)[1],
        limit_s=limit_of(job, rules) or 0.0,
        partition=partition,
        folder=digest(folder_template(job.work_dir)),
        words=_words(job.name, words_of_request(job.script, job.argv, job.work_dir)),
    )


def queued_job(job: RawJob) -> AskedJob:
    """Give the same of a job in the queue."""
    return AskedJob(
        nodes=job.nodes,
        cpus=round(job.tres.get("cpu", 0)),
        gpus=round(job.devices.get("gpu", 0)),
        limit_s=job.limit_s or 0.0,
        partition=next(iter(job.partitions), ""),
        folder=digest(folder_template(job.work_dir)),
        words=_words(job.name, words_of_request("", job.command.split(), job.work_dir)),
    )


def _words(name: str, command: Sequence[str]) -> tuple[int, ...]:
    return words_of(name_template(name), template(" ".join(command)))
