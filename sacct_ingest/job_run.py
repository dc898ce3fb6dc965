"""A row of a source, as it is read; it never leaves this package.

Sources make these rows and the store writes them.  Reading the store gives stored jobs, each made
of all rows of one job: `sacct_ingest.store.RunRow`.  Rows come by the million: msgspec structs are
made ten times as fast as dataclasses.
"""

import msgspec

from sacct_ingest.records import JobState, StepRun


class JobRun(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One run of a job: ids are reused and requeues repeat, so the key has three parts.

    ``(cluster, job_id, submit_s)`` is the key; ``job_id`` is the raw id that is unique among the
    jobs of one moment (array task and het component each have their own).
    """

    cluster: str
    job_id: int
    submit_s: int
    state: JobState
    user: str = ""
    name: str = ""
    uid: int | None = None
    account: str = ""
    partition: str = ""
    qos: str = ""
    array_job_id: int | None = None
    array_task_id: int | None = None
    het_job_id: int | None = None
    het_offset: int | None = None
    cancelled_by: str = ""
    exit_code: int | None = None
    exit_signal: int | None = None
    eligible_s: int | None = None
    start_s: int | None = None
    end_s: int | None = None
    elapsed_s: float = 0.0
    limit_s: int | None = None  #: None: unlimited or unknown
    nodes: int = 0
    req_nodes: int | None = None
    cpus: int = 0
    tasks: int | None = None
    gpus: int | None = None  #: in all; None where accounting has no gres/gpu
    node_list: str = ""
    constraints: str = ""
    reservation: str = ""
    req_mem_bytes: int | None = None
    cpu_s: float | None = None
    disk_read_bytes: int | None = None
    disk_write_bytes: int | None = None
    mem_bytes: int | None = None  #: highest resident size of one task of any step
    submit_line: str = ""
    work_dir: str = ""
    comment: str = ""
    admin_comment: str = ""
    steps: tuple[StepRun, ...] = ()
    gpu_percent: float | None = None  #: highest of any step, else the mean that jobstats has
    gpu_mem_bytes: int | None = None
    gpu_types: str = ""  #: ``a100=3,v100=1``; empty where the accounting has no types
    req_cpus: int | None = None  #: in all; Slurm may add some for memory, or give whole nodes
    req_gpus: int | None = None  #: in all
    req_gpu_types: str = ""
