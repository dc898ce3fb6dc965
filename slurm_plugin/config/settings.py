"""The settings of a site, frozen and typed; :mod:`slurm_plugin.config.loader` reads them.

Every value has a default, so that nothing has to be written down to begin.  Durations are in
seconds unless the name says otherwise.
"""

import os
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec

from sacct_ingest.runs.sharing import SharedTag
from slurm_plugin.config import setting_types as types
from slurm_plugin.config.settings_file import SOCKET
from slurm_plugin.config.start_estimates import DEFAULTS


class JobNames(NamedTuple):
    """What rules choose jobs by."""

    partition: str = ""
    account: str = ""
    qos: str = ""
    user: str = ""
    application: str = ""


class Match(types.Section, frozen=True, kw_only=True):
    """Which jobs a rule is for: shell patterns, all given ones must match, one of a list."""

    partition: types.Patterns = "*"
    account: types.Patterns = "*"
    qos: types.Patterns = "*"
    user: types.Patterns = "*"
    application: types.Patterns = "*"

    def holds(self, names: JobNames) -> bool:
        """Whether a job with these names is meant; empty ones match only ``*``."""
        patterns = (self.partition, self.account, self.qos, self.user, self.application)
        return all(map(_matches, names, patterns))


class ModeRule(Match, frozen=True, kw_only=True):
    """What holds for the jobs that match, as far as it says; at least one of its settings."""

    mode: types.Mode | None = None
    time_limit: types.TimeUse | None = None
    soft: types.SoftUse | None = None
    memory: types.MemoryUse | None = None
    place: types.PlaceUse | None = None
    trust: types.Trust | None = None
    explore: types.Explore | None = None
    objective: types.Objective | None = None
    proven: types.Proven | None = None


class SizesRule(Match, frozen=True, kw_only=True):
    """Sizes that matching jobs may get; at least one of the four.

    Node counts are for jobs that ask for none themselves.  CPUs are those of each task.
    """

    nodes: types.NodeRange | None = None
    cpus: types.NodeRange | None = None
    tasks: types.NodeRange | None = None
    gpus: types.NodeRange | None = None

    def range(self, name: str) -> tuple[int, int] | None:
        """Lowest and highest count of nodes, cpus, tasks or gpus; None where it says none."""
        ends: str | None = getattr(self, name)
        if ends is None:
            return None
        low, high = ends.split("-")
        return int(low), int(high)


class OptIn(types.Section, frozen=True, kw_only=True):
    """How a job says that its node count may be chosen."""

    node_range: bool = True  #: by asking for a range, ``-N 2-16``
    tag: bool = True  #: by ``nimo:app=NAME,nodes=2-16`` in its comment
    proven: types.Proven = types.Proven.ADVISE  #: by completed runs on other counts
    rules: tuple[SizesRule, ...] = ()


class Deadline(types.Section, frozen=True, kw_only=True):
    """What ``--deadline`` means here."""

    missed: types.OnMissed = types.OnMissed.WARN
    #: Chance of wait and run together with which a job must make its deadline; a job is
    #: refused where it has less than the rest.
    confidence: types.HighShare = 0.95
    #: Waits that follow from time limits alone are multiplied by this.
    wait_factor: types.Ratio = 1.45


class TimeLimit(types.Section, frozen=True, kw_only=True):
    """Time limits from predictions; see :mod:`slurm_plugin.decision.levers.time_limit`."""

    #: limits to plan with, which end no job; see :mod:`slurm_plugin.decision.levers.soft_limit`
    soft: types.SoftUse = types.SoftUse.OFF
    #: of the jobs, to outlast the limit that they are planned with
    outlasted_share: types.Part = 0.15
    use: types.TimeUse = types.TimeUse.ADVISE  #: set: the limit that ends the job
    quantile: types.HighShare = 0.99  #: share of runs that end within the limit ...
    min_quantile: types.HighShare = 0.9  #: ... and within ``--time-min``
    margin: types.Ratio = 1.2  #: slack on both
    lengthen: bool = True  #: a job may get fewer nodes with a longer limit than it asked for
    #: A limit is never shortened below this share of what it and its last runs asked for ...
    least_share: types.Share = 0.05
    #: ... and of the longest run seen on as many nodes or more.
    longest_share: types.Share = 0.5


class MemorySettings(types.Section, frozen=True, kw_only=True):
    """Memory from predictions; see :mod:`slurm_plugin.decision.levers.memory`."""

    use: types.MemoryUse = types.MemoryUse.TAG
    step: types.Share = 0.75  #: of what runs completed with last: a job gets no less
    least_share: types.Share = 0.05  #: of what the job asks for: it gets no less
    requeue: bool = False  #: jobs that this leaves too little run again with what they asked for


class Sharing(types.Section, frozen=True, kw_only=True):
    """Whose runs may change a job: its user's own, and those that the site says are shared."""

    own_runs: types.Count = 5  #: fewer finished ones change nothing
    tags: tuple[SharedTag, ...] = ()
    first_runs: types.Whose = types.Whose.OWN  #: jobs from which commands without runs are guessed
    copies: types.Whose = types.Whose.OWN  #: jobs whose reports of copies an ingest stores


class Band(types.Section, frozen=True, kw_only=True):
    """When an application is switched off by itself; see `evaluation.feedback`."""

    ratio: types.Ratio = 1.5  #: off: realised over predicted beyond this or its inverse
    back: types.Ratio = 1.25  #: on again: within this
    runs: types.Count = 6  #: whose median counts: the last ones with a prediction
    least: types.Count = 3  #: fewer say nothing


class Policy(types.Section, frozen=True, kw_only=True):
    """The numbers of :func:`slurm_plugin.decision.policy.decide`."""

    objective: types.Objective = types.Objective.TURNAROUND
    price: types.Positive = 8.0  #: weight of the delay that a job imposes on others
    #: the share of turnaround that fewer nodes may cost, over the share of node time that they save
    saving_weight: types.NotNegative = 1.0
    guard_ratio: types.Ratio = 1.25  #: a job's turnaround may grow by this ratio ...
    guard_s: types.NotNegative = 60.0  #: ... and this much, against what it asked for
    guard_wait: types.Part = 1.0  #: share of the request's expected wait that this counts on
    #: a job grows to at most this share of the nodes that are free
    growth_share: types.Share = 0.25
    bystanders: types.Bystanders = types.Bystanders.GROUP  #: others whom a change must not harm
    limit_margin: types.Ratio = 1.2  #: slack in time limits that are raised for fewer nodes
    confidence: types.HighShare = 0.95  #: chance with which a changed job has to keep its guard
    explore: types.Explore = types.Explore.ON
    explore_ratio: types.Ratio = 2.0  #: a try's expected turnaround over that of what was asked for
    memory_margin: types.Ratio = 1.2  #: slack in memory on fewer nodes than were observed


class Energy(types.Section, frozen=True, kw_only=True):
    """Power of nodes, prices and CO2e; see :mod:`slurm_plugin.evaluation.costs`.  0: unknown."""

    node_watts: types.NotNegative = 0.0  #: of each node, where a run was not measured
    pue: types.Ratio = 1.0  #: energy of the site over that of its nodes
    node_hour: types.NotNegative = 0.0  #: prices
    core_hour: types.NotNegative = 0.0
    gpu_hour: types.NotNegative = 0.0
    currency: str = ""
    co2: types.NotNegative | str = 0.0  #: grams of CO2e a kWh, or a CSV file of them by time


class Snapshot(types.Section, frozen=True, kw_only=True):
    """How the cluster is watched."""

    interval_s: types.Positive = 20.0
    max_age_s: types.Positive = 60.0  #: an older view is not believed
    timeout_s: types.Positive = 10.0  #: for one Slurm command
    share: types.Share = 0.1  #: of the time that looks may take; where Slurm is slow, pauses grow
    source: types.Source = types.Source.AUTO


class Access(types.Section, frozen=True, kw_only=True):
    """What each user may ask of nimod; slurmctld and root may as much as they like."""

    requests_per_s: types.Positive = 20.0  #: for ever; twice as many at once
    connections: types.Count = 16  #: at the same time


class Advise(types.Section, frozen=True, kw_only=True):
    """What ``nimo-advise`` may ask of Slurm."""

    clusters: bool = True  #: other clusters of the same slurmdbd are compared
    #: by cluster the host through which its files are copied, as probes and transfers name it
    copy_hosts: Mapping[str, str] = {}
    test_only: bool = DEFAULTS.test_only  #: ``sbatch --test-only`` where the user asks for it
    calls: types.Count = DEFAULTS.calls  #: node counts to ask about, at most
    timeout_s: types.Positive = DEFAULTS.timeout_s  #: for one of them
    cache_s: types.NotNegative = DEFAULTS.cache_s  #: for how long an answer is good


class Ingest(types.Section, frozen=True, kw_only=True):
    """How accounting is read."""

    first_days: types.Count = 90  #: how far the first ingest goes back
    window_days: types.Positive = 1.0  #: accounting asked for at a time
    overlap_s: types.NotNegative = 3600.0  #: read again each time, for what was written late
    again_days: types.Count = 14  #: read again now and then, for what came very late or was changed
    again_every_hours: types.Positive = 24.0  #: how often that is
    #: of the time of a long ingest in which slurmdbd works for it, at most
    share: types.Share = 0.25
    slow_s: types.Positive = 20.0  #: answers that take longer make the windows smaller
    timeout_s: types.Positive = 600.0  #: a sacct that says nothing for so long is ended
    follow_minutes: types.Positive = 10.0  #: between two ingests of "nimo ingest --follow"


class Local(types.Section, frozen=True, kw_only=True):
    """A user's own history, read where no nimod answers."""

    days: types.Count = 180  #: how far the first reading goes back
    steps_days: types.Count = 30  #: of older jobs no steps are read, so no memory and no CPU time
    every_min: types.Positive = 10.0  #: sacct is asked at most once in this time
    timeout_s: types.Positive = 20.0  #: a sacct that says nothing for so long is ended


class Retention(types.Section, frozen=True, kw_only=True):
    """Days for which "nimo prune" keeps rows; 0: for ever."""

    runs_days: types.Days = 0
    steps_days: types.Days = 0
    decisions_days: types.Days = 0
    rejects_days: types.Days = 90
    probes_days: types.Days = 0
    profiles_days: types.Days = 0


class Fit(types.Section, frozen=True, kw_only=True):
    """How prediction tables are made."""

    confidence: Annotated[float, msgspec.Meta(gt=0.5, lt=1)] = 0.9  #: share of runs in an interval
    workers: Annotated[int, msgspec.Meta(ge=0)] = 0  #: processes; 0: one a core
    model: str = "averaged"  #: that draws curves, by its name in predictor/models


class SensorSettings(types.Section, frozen=True, kw_only=True):
    """The sensors of network, CPU and disk."""

    hosts: tuple[str, ...] = ()  #: the clique in the order of its ring: NAME=HOST:PORT
    bind: str = "127.0.0.1:7733"  #: where a sensor listens
    key_file: str = ""  #: shared key; empty: loopback only
    period_s: types.Positive = 300.0
    message_bytes: Annotated[int, msgspec.Meta(ge=1, le=64 << 20)] = 64 << 10
    echoes: Annotated[int, msgspec.Meta(ge=1, le=100)] = 5
    timeout_s: types.Positive = 5.0
    hold_s: types.Positive = 30.0
    spin_s: types.Positive = 1.5
    spin_every: types.Count = 6
    disk_folder: str = ""  #: empty: no disk probe
    disk_bytes: Annotated[int, msgspec.Meta(ge=1 << 20)] = 16 << 20


class Benchmarks(types.Section, frozen=True, kw_only=True):
    """How nodes are benchmarked."""

    type_by: tuple[types.TypeColumn, ...] = (
        types.TypeColumn.CPU_MODEL,
        types.TypeColumn.CPUS,
        types.TypeColumn.FEATURES,
    )
    tolerance: types.Positive = 0.1  #: by which nodes of one type may differ
    seconds: types.Count = 2
    repeats: types.Count = 3
    disk_folder: str = "/tmp"  # noqa: S108 - what each node has
    disk_bytes: Annotated[int, msgspec.Meta(ge=1 << 20)] = 64 << 20
    network_host: str = ""  #: iperf3 server, HOST:PORT; empty: one is started
    nice: Annotated[int, msgspec.Meta(ge=0)] = 10_000
    limit_min: types.Count = 15


class Web(types.Section, frozen=True, kw_only=True):
    """The pages of ``nimo web``."""

    listen: str = "/run/nimo-web/web.sock"  #: path of a Unix socket, or HOST:PORT
    hosts: tuple[str, ...] = ()  #: names of the site's server, besides localhost
    prefix: Annotated[str, msgspec.Meta(pattern=r"^(/[A-Za-z0-9._~-]+)*$")] = ""
    #: who may say in a header which user asks: local accounts, addresses of other hosts
    proxies: tuple[str, ...] = ()
    user_header: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z][A-Za-z0-9-]*$")] = (
        "X-Forwarded-User"
    )
    admins: tuple[str, ...] = ()  #: see all, as Slurm's operators do
    shows: types.Shown = types.Shown.OWN
    days: types.Count = 7  #: of decisions that the overview is about
    replay: str = ""  #: file of "nimo replay --json"


class Tls(types.Section, frozen=True, kw_only=True):
    """Certificates of the site; paths of files in PEM."""

    authority: str = ""
    certificate: str = ""
    key: str = ""
    login_nodes: tuple[str, ...] = ()  #: names in relays' certificates, as shell patterns


class RelaySettings(types.Section, frozen=True, kw_only=True):
    """Answers on login nodes: there a relay, on the controller nimod, which takes relays."""

    listen: str = ""  #: HOST[:PORT] on which nimod takes relays; empty: none
    controllers: tuple[str, ...] = ()  #: HOST[:PORT] of nimod, for a relay
    auth: types.Auth = types.Auth.MUNGE
    munge_socket: str = ""  #: empty: munge's default
    tls: Tls = Tls()


class Config(types.Section, frozen=True, kw_only=True):
    """All settings.  The text of each is in ``etc/nimo.yaml``."""

    cluster: str = ""  #: name in the accounting; empty: ask ``scontrol``
    store: str = ""  #: SQLAlchemy URL; empty: an SQLite file of the user's own
    socket: str = SOCKET
    kill_switch: str = "/etc/nimo/off"
    mode: types.Mode = types.Mode.OBSERVE
    tell_changes: bool = True  #: one line to the user whose job is changed
    rules: tuple[ModeRule, ...] = ()
    opt_in: OptIn = OptIn()
    deadline: Deadline = Deadline()
    policy: Policy = Policy()
    energy: Energy = Energy()
    time_limit: TimeLimit = TimeLimit()
    memory: MemorySettings = MemorySettings()
    #: which place is tried first; see :mod:`slurm_plugin.decision.levers.place`
    place: types.PlaceUse = types.PlaceUse.TAG
    sharing: Sharing = Sharing()
    band: Band = Band()
    snapshot: Snapshot = Snapshot()
    access: Access = Access()
    relay: RelaySettings = RelaySettings()
    advise: Advise = Advise()
    ingest: Ingest = Ingest()
    local: Local = Local()
    #: the user's own commands look at how large the files are that a submission names
    inputs: bool = True
    retention: Retention = Retention()
    fit: Fit = Fit()
    probes: SensorSettings = SensorSettings()
    benchmarks: Benchmarks = Benchmarks()
    web: Web = Web()

    def for_job(self, names: JobNames) -> "JobSettings":
        """Collect what holds for a job: of each setting the first matching rule that says it."""
        rules = [rule for rule in self.rules if rule.holds(names)]
        return JobSettings(
            mode=next((r.mode for r in rules if r.mode), self.mode),
            time_limit=next((r.time_limit for r in rules if r.time_limit), self.time_limit.use),
            soft=next((r.soft for r in rules if r.soft), self.time_limit.soft),
            memory=next((r.memory for r in rules if r.memory), self.memory.use),
            place=next((r.place for r in rules if r.place), self.place),
            trust=next((r.trust for r in rules if r.trust), types.Trust.AUTO),
            explore=next((r.explore for r in rules if r.explore), self.policy.explore),
            objective=next((r.objective for r in rules if r.objective), self.policy.objective),
            proven=next((r.proven for r in rules if r.proven), self.opt_in.proven),
            tell_changes=self.tell_changes,
        )

    @property
    def changes_nothing(self) -> bool:
        """Whether decisions change no job and send no message."""
        return {self.mode, *(rule.mode for rule in self.rules)} <= {
            None,
            types.Mode.OFF,
            types.Mode.OBSERVE,
        }

    @property
    def store_url(self) -> str:
        """SQLAlchemy URL of the store."""
        return self.store or f"sqlite:///{data_folder() / 'nimo.db'}"


class JobSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the site says about one job."""

    mode: types.Mode
    time_limit: types.TimeUse
    trust: types.Trust
    soft: types.SoftUse = types.SoftUse.OFF
    memory: types.MemoryUse = types.MemoryUse.TAG
    place: types.PlaceUse = types.PlaceUse.TAG
    explore: types.Explore = types.Explore.ON
    objective: types.Objective = types.Objective.TURNAROUND
    proven: types.Proven = types.Proven.OFF
    tell_changes: bool = True


def _matches(text: str, patterns: types.Patterns) -> bool:
    if isinstance(patterns, str):
        return fnmatchcase(text, patterns)
    return any(fnmatchcase(text, pattern) for pattern in patterns)


def data_folder() -> Path:
    """Folder for what belongs to the user alone (XDG base directories)."""
    home = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(home) / "nimo"
