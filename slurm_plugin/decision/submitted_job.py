"""A job as it comes in, read once: its texts, by what it is recognised, and its sizes."""

from dataclasses import dataclass
from typing import Any

from predictor.neighbours import AskedJob, digest
from sacct_ingest.records import Identity
from sacct_ingest.runs.attributes import attributes as named_attributes
from sacct_ingest.runs.layout import SOME_SHAPE, Layout
from sacct_ingest.scripts.engines import folder_template
from sacct_ingest.scripts.script_bag import bag_of
from sacct_ingest.scripts.signature import identity_of_request, words_of_request
from sacct_ingest.text.tag import Tag, parse_tag, tag_fault
from slurm_plugin.config.settings import JobNames
from slurm_plugin.decision.job_keys import words_to_compare
from slurm_plugin.decision.request import JobScript
from slurm_plugin.decision.sizes import (
    AskedSizes,
    gpus_of,
    layouts_of,
    layouts_of_components,
    size_layouts_of,
    together,
)
from slurm_plugin.protocol.request_messages import AllocationRequest, Job
from slurm_plugin.slurm.cluster_state import RequestRules
from slurm_plugin.slurm.footprint import memory_bytes

_MINUTE_S = 60.0


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


def names_of(job: Job, application: str) -> JobNames:
    """Give what the site's rules choose a job by."""
    return JobNames(job.partition, job.account, job.qos, job.user_name, application)


def script_of(job: Job) -> JobScript:
    """Give the texts of a job that may say sizes themselves."""
    return JobScript(job.script, job.input_text, " ".join(job.argv[1:]))


def limit_of(job: Job, rules: RequestRules | None) -> float | None:
    """Time limit of a job in seconds; that of its partition where it names none."""
    default = (rules.default_time_s or rules.max_time_s) if rules else None
    return _MINUTE_S * job.time_limit if job.time_limit else default


def may_leave(job: Job) -> bool:
    """Whether a job may go to another cluster: it names nothing that is of this one alone."""
    bound = (job.dependency, job.reservation, job.req_nodes, job.exc_nodes, job.licenses)
    return not any(bound) and job.het_job_offset is None


def submitted(job: Job) -> dict[str, Any]:
    """Give the fields of a request that are as the job was submitted."""
    return {
        "begin_given": bool(job.begin_time),
        "resources": AllocationRequest.of(job),
        "script": script_of(job),
        "tag": parse_tag(job.comment),
        "tag_fault": tag_fault(job.comment),
        "array": job.array_inx,
        "components": _component_nodes(job),
        "hook": job.hook,
        "name": job.name,
        "work_dir": job.work_dir,
        "inputs": job.inputs,
        "script_bag": bag_of(job.script),
    }


def _component_nodes(job: Job) -> tuple[int, ...]:
    """Give the fewest nodes of each component of a heterogeneous job; empty: it is none."""
    if not job.components:
        return ()
    return tuple(part.min_nodes or 1 for part in (job, *job.components))


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmittedJob:
    """A job as the wire has it, with all that is read in it, once."""

    job: Job
    rules: RequestRules | None  #: of its partition; None: they are unknown
    tag: Tag | None  #: of its comment
    script: JobScript
    identity: Identity
    names: JobNames
    sizes: AskedSizes
    limit_s: float | None  #: that of its partition where it names none
    mem_node_bytes: int | None  #: that it gets on each node

    @classmethod
    def of(cls, job: Job, rules: RequestRules | None) -> "SubmittedJob":
        """Read a job.

        rules: of its partition, whose default limit and memory hold where the job gives none.
        """
        identity = identity_of(job)
        het = job.het_job_offset is not None
        return cls(
            job=job,
            rules=rules,
            tag=parse_tag(job.comment),
            script=script_of(job),
            identity=identity,
            names=names_of(job, identity.application or job.name),
            sizes=together(
                AskedSizes.of(job, rules), [AskedSizes.of(one, rules) for one in job.components]
            ),
            limit_s=limit_of(job, rules),
            mem_node_bytes=None if het else memory_bytes(job, rules),
        )

    @property
    def deadline(self) -> str:
        """As its user wrote it; that of its script where the hook could not see the option."""
        return self.job.deadline or self.script.option("deadline")

    @property
    def layouts(self) -> tuple[Layout, ...]:
        """Layouts of the runs that can predict it."""
        if self.job.het_job_offset == 0:
            return layouts_of_components(self.job, self.job.components, self.rules)
        if self.job.het_job_offset is not None:
            return (Layout(shape=SOME_SHAPE),)
        return (*layouts_of(self.sizes), *size_layouts_of(self.sizes))

    @property
    def command(self) -> tuple[str, ...]:
        """Words of its command."""
        return words_of_request(self.job.script, self.job.argv, self.job.work_dir)

    def attributes(self, account: str) -> dict[str, str]:
        """Give its attributes by name, as its run will have them in the accounting."""
        job = self.job
        return named_attributes(
            self.command,
            account=account,
            limit_s=self.limit_s,
            mem_node_bytes=self.mem_node_bytes,
            work_dir=job.work_dir,
            script=self.identity.script,
            name=job.name,
            comment=job.comment,
            export=job.export,
            array=job.array_inx.partition("%")[0],
            inputs=job.inputs,
        )

    def beside_others(self, partition: str, most_nodes: int | None = None) -> AskedJob:
        """Give what it is compared with past jobs by; of a range of nodes that is the most.

        partition: where it runs.
        most_nodes: that it can get there; None: not known.
        """
        fewest = self.job.min_nodes or 1
        most = self.job.max_nodes or fewest
        nodes = max(min(most, most_nodes or most), fewest)
        if self.job.components:
            nodes = self.sizes.nodes or 1 + len(self.job.components)
        return AskedJob(
            nodes=nodes,
            cpus=self.sizes.tasks * (self.job.cpus_per_task or 1),
            gpus=gpus_of(self.job, nodes)[1],
            limit_s=self.limit_s or 0.0,
            partition=partition,
            folder=digest(folder_template(self.job.work_dir)),
            words=words_to_compare(self.job.name, self.command),
            script_bag=bag_of(self.job.script),
        )
