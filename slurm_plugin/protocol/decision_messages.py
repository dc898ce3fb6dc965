"""What nimod answers to the hooks, and what it leaves ready for them."""

from typing import Literal

import msgspec

from slurm_plugin.protocol.lines import Message, version


class Change(msgspec.Struct, omit_defaults=True, kw_only=True):
    """Fields of the job that the hook is to write; absent ones stay as they are."""

    min_nodes: int | None = None
    max_nodes: int | None = None
    num_tasks: int | None = None
    min_cpus: int | None = None
    ntasks_per_node: int | None = None
    cpus_per_task: int | None = None
    tres_per_job: str | None = None
    tres_per_node: str | None = None
    tres_per_task: str | None = None
    time_limit: int | None = None  #: minutes; raised only together with another size
    time_min: int | None = None  #: minutes, at most the limit; never where the user gave one
    #: minutes: becomes the job's time_min where Slurm plans with that and ends no job for it ...
    soft_min: int | None = None
    soft_until: int | None = None  #: ... as nimod has seen: good until then, seconds of the epoch
    min_mem_per_node: int | None = None  #: MiB, less than the job asks for
    min_mem_per_cpu: int | None = None  #: MiB
    partition: str | None = None  #: the job's own ones in another order
    prefer: str | None = None  #: one of the alternatives in the job's features


class Answer(Message, omit_defaults=True, kw_only=True):
    """Nimod's answer to ``decide`` and ``prepare``.

    ``action`` is ``keep`` (pass unchanged), ``set`` (write ``set``) or ``refuse`` (only where the
    site says that deadlines are binding).  ``message`` is for the user, empty when silent.
    """

    action: Literal["keep", "set", "refuse"] = "keep"
    reason: str = ""
    set: Change | None = None
    admin_comment: str = ""  #: to be appended to what the job has; empty: leave it alone
    message: str = ""
    ticket: str = ""  #: to be shown with the job that ``prepare`` was asked about
    #: the settings change no job: on this connection the hook need not wait for answers any more,
    #: which costs slurmctld 170 to 270 µs a submission, not 670 to 740 (docs/measured.md)
    quiet: bool = False
    link_down: bool = False  #: there is no answer because a relay does not reach its controller


class ReadyDecision(msgspec.Struct, kw_only=True):
    """File in which a decision lies ready for job_submit, which reads it and does not ask.

    It is for a job whose ``fields`` have these ``values``; None: the field is not set.
    """

    v: int = msgspec.field(default_factory=version)
    until_s: float  #: seconds since the epoch, after which it is not taken
    user_id: int
    fields: list[str]
    values: list[int | str | None]
    answer: Answer
