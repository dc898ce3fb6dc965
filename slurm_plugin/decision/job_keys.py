"""By what a job in the queue is recognised, and compared with runs."""

from collections.abc import Sequence
from dataclasses import replace

from predictor.neighbours import AskedJob, digest, words_of
from sacct_ingest.records import Identity
from sacct_ingest.scripts.engines import folder_template, name_template, template
from sacct_ingest.scripts.signature import identity_of_request, is_nameless, words_of_request
from slurm_plugin.slurm.cluster_state import RawJob


def identity_in_queue(job: RawJob) -> Identity:
    """Recognise a job by what the queue shows of it; a name that says nothing does not count.

    The queue has not the command of ``--wrap``: all such jobs of a user look alike there.
    """
    identity = identity_of_request(
        user=job.user,
        name=job.name,
        comment=job.comment,
        script="",
        argv=job.command.split(),
        work_dir=job.work_dir,
    )
    return replace(identity, name="") if is_nameless(job.name) else identity


def queued_job(job: RawJob) -> AskedJob:
    """Give what a job in the queue is compared with past jobs by."""
    return AskedJob(
        nodes=job.nodes,
        cpus=round(job.tres.get("cpu", 0)),
        gpus=round(job.devices.get("gpu", 0)),
        limit_s=job.limit_s or 0.0,
        partition=next(iter(job.partitions), ""),
        folder=digest(folder_template(job.work_dir)),
        words=words_to_compare(job.name, words_of_request("", job.command.split(), job.work_dir)),
    )


def words_to_compare(name: str, command: Sequence[str]) -> tuple[int, ...]:
    """Give the words of a job's name and command, without what is volatile in them."""
    return words_of(name_template(name), template(" ".join(command)))
