"""Decisions for cli_filter before slurmctld gets the job, cached so that each is made once.

The submit command gets a ticket with its answer and forwards it; job_submit shows it for the job
that arrives.  A command that does not wait makes the ticket itself and goes on as its user wrote
it.  A ticket is worth nothing by itself: it stands for a decision only where the job is of the same
user and is what the command was to submit, and for one job.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import msgspec

from sacct_ingest.scripts.job_script import CommandLine
from slurm_plugin.config.settings import Config
from slurm_plugin.decision.policy import Decision
from slurm_plugin.decision.request import JobScript
from slurm_plugin.decision.situation import Situation
from slurm_plugin.protocol.decision_messages import Answer, Change, ReadyDecision
from slurm_plugin.protocol.request_messages import Command, HookLevel, Job
from slurm_plugin.slurm.cluster_state import Cluster
from slurm_plugin.slurm.footprint import gpu_count
from slurm_plugin.slurm.job_request import Submitter, job_fields, make_job

#: A command that was stopped at a prompt of another filter takes that long.
_VALID_S = 60.0
_HELD, _HELD_EACH = 4_000, 200  #: in all, and of one user
#: Most characters of a job's fields in the cache.
_LONGEST = 4_096

#: Options by which a command does something else than ask for one job of its user, or lays its
#: tasks out in a way that nimod's form of the request does not show.
_LEFT_ALONE = frozenset(
    {
        *("jobid", "uid", "gid", "no-allocate", "wrap", "nodefile", "relative", "spread-job"),
        *("use-min-nodes", "distribution", "mincpus", "sockets-per-node", "cores-per-socket"),
        *("threads-per-core", "extra-node-info", "ntasks-per-core", "ntasks-per-gpu"),
        *("ntasks-per-tres", "tres-per-task", "gpus-per-socket", "cpus-per-gpu", "mem-per-gpu"),
        *("overcommit", "clusters", "cluster", "external", "resources"),
    }
)

#: Fields that must be in the submitted job what the command was to submit, also absent.
_SAME = (
    *("user_id", "name", "min_nodes", "max_nodes", "ntasks_per_node", "cpus_per_task"),
    *("time_limit", "time_min", "array_inx", "het_job_offset", "deadline", "begin_time"),
    *("min_mem_per_node", "min_mem_per_cpu", "features", "prefer", "licenses"),
    "reservation",
    *("dependency", "req_nodes", "exc_nodes"),
    *("contiguous", "segment_size", "shared", "req_switch"),
)
#: And these where they are named; which are is in ``named``.
_SAME_IF_NAMED = ("account", "qos", "partition")
#: And these where the command went on as its user wrote it: the answer is about them, too.
_SAME_TASKS = ("num_tasks", "ntasks_per_socket")

#: Fields of a change that are another size than a node count; a command writes them itself.
_SIZES = ("num_tasks", "ntasks_per_node", "cpus_per_task")
_DEVICES = ("tres_per_job", "tres_per_node", "tres_per_task")

#: Fields of a change that job_submit sees to.
_BY_JOB_SUBMIT = (
    *("min_mem_per_node", "min_mem_per_cpu", "soft_min", "soft_until"),
    *("partition", "prefer"),
)

#: User and ticket.
TicketKey = tuple[int, str]
#: Puts what lies ready where job_submit finds it, or, without it, takes it away.
Publish = Callable[[TicketKey, ReadyDecision | None], None]


@dataclass(frozen=True)
class PreparedDecision:
    """A decision on a job that is still to come."""

    decision_id: str
    job: Job  #: as it is to come, without long texts
    case: Situation
    decided: Decision
    answer: Answer  #: to the job as its user asked for it
    given: Change | None  #: the change that the command received
    announced: bool = False  #: the command did not wait for it
    comes: bool = True  #: the job will be there; not so with ``--test-only``

    @cached_property
    def expected(self) -> dict[str, int | str | None]:
        """Fields that the job must have for this to be about it; None: not set."""
        given = msgspec.structs.asdict(self.given) if self.given else {}
        names = (*_SAME, *_SAME_TASKS) if self.announced else _SAME
        if given.get("num_tasks"):
            names = (*names, "num_tasks")
        own = {name: _field(self.job, name) for name in names}
        known = {name: _field(self.job, name) for name in _SAME_IF_NAMED}
        own |= {name: value for name, value in known.items() if value is not None}
        own["named"] = self.job.named or ""
        return own | {name: given[name] for name in names if given.get(name) is not None}

    def is_for(self, job: Job) -> bool:
        """Whether this is the job that the command was to submit."""
        own = self.expected.items()
        return (
            job.named in (None, self.expected["named"])
            and all(_field(job, name) == value for name, value in own if name != "named")
            and (self.given is None or _has_devices(job, self.given))
        )

    def ready(self) -> ReadyDecision:
        """Give what job_submit needs to carry it out by itself."""
        return ReadyDecision(
            until_s=self.case.now_s + _VALID_S,
            user_id=self.job.user_id or 0,
            fields=list(self.expected),
            values=list(self.expected.values()),
            answer=self.remaining(),
        )

    def remaining(self) -> Answer:
        """Answer for job_submit: the command has seen to limits and sizes itself."""
        change = self.answer.set
        if self.given is None or change is None:
            return self.answer
        done = dict.fromkeys(("time_limit", "time_min", *_SIZES, *_DEVICES))
        if self.given.min_nodes is None:
            done["min_cpus"] = None
        left = msgspec.structs.replace(change, **done)
        return msgspec.structs.replace(self.answer, set=left)


def _has_devices(job: Job, given: Change) -> bool:
    """Whether a job has the GPUs that its command was given; releases spell them differently."""
    texts = {name: getattr(given, name) for name in _DEVICES}
    return all(
        gpu_count(getattr(job, name)) == gpu_count(text) for name, text in texts.items() if text
    )


def _field(job: Job, name: str) -> int | str | None:
    """Field of a job; None where it is not set."""
    value: int | str | None = getattr(job, name)
    if name == "account" and isinstance(value, str):
        value = value.lower()  # as the accounting keeps it
    return None if value == "" else value


class TicketCache:
    """Prepared decisions by user and ticket, for a minute; of too many the oldest go first.

    publish: keeps what job_submit may take without asking.
    """

    def __init__(self, publish: Publish) -> None:
        self._publish = publish
        self._held: dict[TicketKey, PreparedDecision] = {}
        self._each: Counter[int] = Counter()

    def issue(self, prepared: PreparedDecision, ticket: str) -> None:
        """Keep a decision under a ticket; the user's own one of that name goes."""
        key = (prepared.job.user_id or 0, ticket)
        self._drop(key)
        now_s = prepared.case.now_s
        while (oldest := next(iter(self._held), None)) is not None and (
            len(self._held) >= _HELD or now_s - self._held[oldest].case.now_s > _VALID_S
        ):
            self._drop(oldest)
        if self._each[key[0]] >= _HELD_EACH:
            self._drop(next(one for one in self._held if one[0] == key[0]))
        self._held[key] = prepared
        self._each[key[0]] += 1
        self._publish(key, prepared.ready())

    def redeem(self, job: Job, *, now_s: float) -> PreparedDecision | None:
        """Give the decision that was made for a job, once; None where there is none."""
        prepared = self._drop((job.user_id or 0, job.ticket))
        if prepared is None or now_s - prepared.case.now_s > _VALID_S:
            return None
        return prepared if prepared.is_for(job) else None

    def _drop(self, key: TicketKey) -> PreparedDecision | None:
        prepared = self._held.pop(key, None)
        if prepared is not None:
            self._each[key[0]] -= 1
            if not self._each[key[0]]:
                del self._each[key[0]]
            self._publish(key, None)
        return prepared


def without_texts(job: Job) -> Job | None:
    """Leave out what only the decision needs, so that little waits; None: what is left is long."""
    short = msgspec.structs.replace(job, script="", argv=[], comment="", input_text="")
    texts = [len(one) for one in msgspec.structs.astuple(short) if type(one) is str]
    return short if sum(texts) <= _LONGEST else None


def decided_on(case: Situation) -> Situation:
    """Leave out what only the decision needed."""
    request = msgspec.structs.replace(case.request, script=JobScript(), tag_fault="")
    return msgspec.structs.replace(case, request=request)


def given_of(answer: Answer, hook: int) -> Change | None:
    """Tell a command what to ask for: a size and the limits that go with it.

    hook: what the command can write.
    """
    change = answer.set
    if answer.action != "set" or change is None:
        return None
    left = dict.fromkeys(_BY_JOB_SUBMIT)
    if change.min_nodes is not None:
        return msgspec.structs.replace(change, num_tasks=None, min_cpus=None, **left)
    sized = any(getattr(change, name) is not None for name in (*_SIZES, *_DEVICES))
    if not sized or hook < HookLevel.COMMANDS:
        return None
    return msgspec.structs.replace(change, min_cpus=None, **left)


def job_of(command: Command, *, user: str, uid: int, now_s: float) -> Job | None:
    """Job that a submit command is about to ask for; None where it is left to job_submit.

    Raises ScriptError: the value of an option cannot be read.
    """
    script, *arguments = command.argv or [""]
    if not _LEFT_ALONE.isdisjoint(command.options) or (command.program == "sbatch" and not script):
        return None
    options: dict[str, str | None] = {**command.options}
    if command.program == "salloc":
        options.setdefault("job-name", "no-shell" if "no-shell" in options else "interactive")
    line = CommandLine(command.program, options, script, tuple(arguments))
    fields = job_fields(line, command.script, Submitter(user, uid, command.work_dir), now_s=now_s)
    job = make_job(fields)
    return msgspec.structs.replace(
        job,
        hook=command.hook,
        places=command.places,
        input_text=command.input_text,
        inputs=command.inputs,
    )


def completed(job: Job, config: Config, cluster: Cluster) -> Job | None:
    """Put in what job_submit will see where the user named nothing.

    None where a rule of the site goes by an account or a QOS that only slurmctld has.
    """
    full = msgspec.structs.replace(
        job,
        named=",".join(name for name in _SAME_IF_NAMED if getattr(job, name)),
        partition=job.partition or cluster.default_partition,
        account=cluster.limits.account_of(job.user_name, job.account),
    )
    rules = (*config.rules, *config.opt_in.rules)
    unknown = (
        not full.account and any(rule.account != "*" for rule in rules),
        not full.qos and any(rule.qos != "*" for rule in rules),
    )
    return None if any(unknown) else full
