"""A site without Slurm: what it is asked, and what it answers."""

import msgspec

from sacct_ingest.records import NodeProfile
from sacct_ingest.store import Store
from slurm_plugin.config.settings import Config
from slurm_plugin.experiments.plan import site, slurm_places
from slurm_plugin.experiments.plan.slurm_places import room_for
from slurm_plugin.experiments.plan.workflow_file import parse
from slurm_plugin.slurm.cluster_state import Cluster, RawState
from slurm_plugin.slurm.node_pool import NodeGroup, NodePool
from tests.slurm_plugin.experiments.plan.made import NOW
from tests.slurm_plugin.made import partition

TEXT = """
storages: {s: {path: /s}}
places: {a: {storage: s}, b: {storage: s, attributes: {mem_latency_s: 7}}, c: {storage: s}}
tasks: {x: {command: x, run_time: 10}}
"""


def flow(text=TEXT):
    return parse(text, name="w.yaml")


def node(name, cpu, node_type="t", on="pine"):
    return NodeProfile(
        cluster=on, node=name, node_type=node_type, at_s=NOW, cpu_all_events_per_s=cpu,
        mem_latency_s=1e-7,
    )  # fmt: skip


def pool(names):
    group = NodeGroup(cpus=4, mem_mib=0, steps=())
    return NodePool(now_s=NOW, groups={group: tuple(names)})


class Polled:
    """In place of Slurm: what it says of each cluster, and how each was asked."""

    def __init__(self):
        self.looks = {}
        self.asked = {}
        self.requests = []
        #: seconds since a job was on each node
        self.busy = {"1": 600.0, "2": 0.0, "4": 600.0}

    def busy_text(self):
        lines = (
            f"NodeName={name} Arch=x86_64 State=IDLE LastBusyTime={NOW - age:.0f} Weight=1\n"
            for name, age in self.busy.items()
        )
        return "".join(lines) + "NodeName=new State=IDLE LastBusyTime=Unknown\n"

    def poller(self, _, **how):
        self.asked[how["cluster"]] = how
        self.raw, self.settings, self.cluster = RawState(), None, how["cluster"]
        return self

    def look(self):
        return self.looks[self.cluster]

    def room(self, look, request):
        self.requests.append(request)
        return room_for(look, request)

    def gives(self, *parts, cluster=""):
        self.looks[cluster] = Cluster(
            name=cluster or "pine",
            taken_s=NOW,
            partitions={part.name: part for part in parts},
            default_partition="",
        )


def with_polled(monkeypatch):
    """Put one in the place of Slurm."""
    made = Polled()
    monkeypatch.setattr(slurm_places, "ClusterPoller", made.poller)
    monkeypatch.setattr(slurm_places, "with_outlooks", lambda look, *_: look)
    monkeypatch.setattr(slurm_places, "room_for", made.room)
    monkeypatch.setattr(slurm_places, "run_slurm", lambda *_, **__: made.busy_text())
    monkeypatch.setattr("time.time", lambda: NOW)
    return made


def places(**nodes):
    """A partition of the place's name for each, on these nodes of one letter."""
    return [partition(name=name, pool=pool(own) if own else None) for name, own in nodes.items()]


def problem_of(flow, folder, profiles=(), **also):
    """The problem of a workflow, with a store that has these profiles."""
    url = f"sqlite:///{folder}/nimo.db"
    with Store.open(url) as store:
        store.profiles.add(profiles)
    config = msgspec.structs.replace(also.pop("config", Config()), store=url)
    return site.problem(flow, config, folder, **also)
