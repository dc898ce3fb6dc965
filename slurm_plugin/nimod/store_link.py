"""nimod's link to the store: new tables come in, decisions go out.

The one module of nimod that loads SQLAlchemy.  It works in a thread that no answer waits for.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from math import inf
from typing import TypeVar

from predictor.neighbours import Neighbours
from sacct_ingest.errors import RowRefused, StoreError
from sacct_ingest.records import DecisionRow, Probe, Resource
from sacct_ingest.store import RecordRow, RejectRow, Store
from sacct_ingest.store.fits import NEIGHBOURS, NODES, OUTLOOK, QUEUE, WAITS
from slurm_plugin.decision.lookup import PredictionLookup
from slurm_plugin.protocol.status_messages import WaitAccuracy, judge
from slurm_plugin.slurm.cluster_state import Cluster
from slurm_plugin.slurm.known_nodes import stored_form
from slurm_plugin.slurm.operator_updates import ClosedFields
from slurm_plugin.wait_forecasts.forecasts import Outlooks

_Item = TypeVar("_Item")

_log = logging.getLogger(__name__)
_BATCH = 500
#: So many tables are read before others have their turn, and for how long: an answer shares the
#: interpreter with one slice at most (about 1 ms).
_SLICE, _PAUSE_S = 100, 0.003
#: Waits are judged this often, those of the last four weeks, and not more than so many of them.
_WAITS_EVERY_S, _WAITS_OF_S, _WAITS = 600.0, 28 * 86_400.0, 2_000
#: Links between clusters are read this often, the latest measurements of each series of 30 days.
_LINKS_EVERY_S, _LINKS_OF_S, _LINK = 60.0, 30 * 86_400.0, 100
#: The cluster's nodes are left for answers without nimod, where they changed.
_NODES_EVERY_S = 600.0


@dataclass(kw_only=True)
class StoreLink:
    """Reads tables when they have changed and writes the decisions that wait.

    A store that is locked, read-only, gone or not there yet is tried again at the next visit;
    decisions wait meanwhile, up to ``limit`` of them, after which the oldest are given up.  One
    that the store refuses is set aside among its rejected rows, and the others are written.
    """

    url: str  #: SQLAlchemy URL
    publish: Callable[[PredictionLookup], None]  #: takes new tables, in the thread that visits
    #: name of the cluster, for decisions made before it was read; empty until then
    cluster: Callable[[], str]
    #: gives the latest view of the cluster, whose nodes are left in the store
    view: Callable[[], Cluster | None] = lambda: None
    #: take now and then how near predicted waits came, and which jobs outlasted their plans
    publish_waits: Callable[[WaitAccuracy], None] = lambda _: None
    publish_outlasted: Callable[[list[tuple[str, bool]]], None] = lambda _: None
    #: takes now and then by cluster what was measured on the way there
    publish_links: Callable[[Mapping[str, list[Probe]]], None] = lambda _: None
    copy_hosts: Callable[[], Mapping[str, str]] = dict  #: by cluster the host of its copies
    #: keeps what estimates of waits were off by: read from the store once, written now and then
    wait_record: Outlooks | None = None
    #: the same of other clusters, by name: only read
    elsewhere: Mapping[str, Outlooks] = field(default_factory=dict)
    #: fields of users' jobs that stay as they are, by level of their record: read once, too
    closed: Mapping[str, ClosedFields] = field(default_factory=dict)
    clock: Callable[[], float] = time.time  #: seconds since the epoch
    pause: Callable[[], None] = lambda: time.sleep(_PAUSE_S)  #: leaves the interpreter to answers
    limit: int = 100_000  #: most decisions in memory
    #: when another store was last met in the place of the one before; None: never
    changed_s: float | None = field(default=None, init=False)
    trouble: str = field(default="", init=False)  #: with the store, in words; empty where it works

    def __post_init__(self) -> None:
        self._record_read = False
        self._past_of: int | None = None
        self._past_elsewhere: dict[str, int | None] = {}
        self._waits_s = self._links_s = self._nodes_s = -inf
        self._nodes = ""
        self._waiting: deque[DecisionRow] = deque()
        self._lost = 0
        self._written: deque[DecisionRow] = deque(maxlen=_BATCH)
        self._store: Store | None = None
        self._had_store = False
        self._version: int | None = None
        self._published = PredictionLookup()
        self._standings = -1
        self._published_links: dict[str, list[Probe]] = {}

    @property
    def pending(self) -> int:
        """Decisions that are not written yet."""
        return len(self._waiting)

    def record(self, row: DecisionRow) -> None:
        """Take a decision to be written at the next visit; never waits."""
        if len(self._waiting) >= self.limit:
            self._waiting.popleft()
            self._lost += 1
        self._waiting.append(row)

    def forget(self) -> None:
        """Make the next visit read the tables again, changed or not."""
        self._version = None

    def visit(self) -> None:
        """Read what is new and write what waits."""
        try:
            store = self._current()
            # Tables are read even where nothing can be written.
            self._read(store)
            self._write(store)
            now_s = self.clock()
            if now_s - self._waits_s >= _WAITS_EVERY_S:
                self._waits_s = now_s
                self.publish_waits(judge(store.decisions.waits(now_s - _WAITS_OF_S, _WAITS)))
                self.publish_outlasted(store.decisions.outlasted(now_s - _WAITS_OF_S, _WAITS))
            if now_s - self._links_s >= _LINKS_EVERY_S:
                self._links_s = now_s
                links = self._links(store, now_s)
                if links != self._published_links:
                    self._published_links = links
                    self.publish_links(links)
            if now_s - self._nodes_s >= _NODES_EVERY_S:
                self._leave_nodes(store, now_s)
            self._exchange_closed(store)
            self._exchange_record(store)
        except StoreError as error:
            text = str(error)
            # Once, not at every visit.
            if text != self.trouble:
                _log.error("%s; trying again, %d decisions wait", text, len(self._waiting))
            self.trouble = text
        else:
            self.trouble = ""

    def _leave_nodes(self, store: Store, now_s: float) -> None:
        """Leave the nodes of the cluster, once Slurm has shown them."""
        if (view := self.view()) is None:
            return
        self._nodes_s = now_s
        payload = stored_form(view)
        if payload != self._nodes:
            store.records.put(RecordRow(level=NODES, key=view.name, payload=payload))
            self._nodes = payload

    def _links(self, store: Store, now_s: float) -> dict[str, list[Probe]]:
        """Read what was measured on the way from this cluster's host to those of others."""
        hosts = self.copy_hosts()
        here = hosts.get(self.cluster(), "")
        links = {}
        for cluster, there in hosts.items():
            if here and there != here:
                series = [
                    (Resource.BANDWIDTH, here, there), (Resource.TRANSFER, here, there),
                    (Resource.CPU, here, ""), (Resource.CPU, there, ""),
                ]  # fmt: skip
                since_s = now_s - _LINKS_OF_S
                links[cluster] = [
                    probe
                    for names in series
                    for probe in store.probes.series(*names, since_s=since_s)[-_LINK:]
                ]
        return links

    def _current(self) -> Store:
        """Give the store that is at its place now, opened anew where it was replaced.

        One that was deleted is not made anew: it may come back, and the tables are good meanwhile.
        """
        if self._store is not None and (change := self._store.change()):
            _log.error("store %s %s; %d decisions wait", self.url, change, self.pending)
            self.changed_s = self.clock()
            self._store.close()
            self._store = None
            self._version = None
            self._standings = -1
            # The last ones may have gone into what is there no more; none is written twice.
            self._waiting.extendleft(reversed(self._written))
        if self._store is not None and self._store.read_only:
            # Its file may be writable by now, and SQLite sees no changes in it.
            self._store.close()
            self._store = None
        if self._store is None:
            self._store = Store.open(self.url, create=not self._had_store)
            self._had_store = True
        return self._store

    def close(self) -> None:
        """Give back the connections."""
        if self._store is not None:
            self._store.close()

    def _exchange_closed(self, store: Store) -> None:
        """Read which fields of jobs an earlier nimod left alone, and write what is new in them."""
        if not (cluster := self.cluster()):
            return
        for level, closed in self.closed.items():
            if not closed.restored:
                closed.restore(store.records.of_level(level).get(cluster, ""))
            if (payload := closed.unsaved()) is not None:
                store.records.put(RecordRow(level=level, key=cluster, payload=payload))

    def _exchange_record(self, store: Store) -> None:
        """Read the record of waits once the cluster's name is read, and write what is new in it."""
        outlooks = self.wait_record
        cluster = self.cluster()
        if outlooks is None or not cluster:
            return
        if not self._record_read:
            outlooks.corrections.restore(store.records.of_level(WAITS).get(cluster, ""))
            self._record_read = True
        if self._past_of != self._version:
            outlooks.remember(store.records.of_level(QUEUE).get(cluster, ""))
            self._past_of = self._version
        for name, others in list(self.elsewhere.items()):
            if name not in self._past_elsewhere:
                others.corrections.restore(store.records.of_level(WAITS).get(name, ""))
            if self._past_elsewhere.get(name, -1) != self._version:
                others.remember(store.records.of_level(QUEUE).get(name, ""))
                self._past_elsewhere[name] = self._version
        now_s = self.clock()
        new = (
            (WAITS, outlooks.corrections.unsaved(now_s=now_s)),
            (OUTLOOK, outlooks.outlook(now_s=now_s)),
        )
        for level, payload in new:
            if payload is not None:
                store.records.put(RecordRow(level=level, key=cluster, payload=payload))

    def _write(self, store: Store) -> None:
        if self._lost:
            _log.error("%d decisions were lost: the store was away for too long", self._lost)
            self._lost = 0
        while self._waiting:
            # Copied at once: the event loop may append meanwhile.
            batch = list(islice(self._waiting.copy(), _BATCH))
            named = [row if row.cluster else replace(row, cluster=self.cluster()) for row in batch]
            if reasons := list(self._refused(store, named)):
                _log.error("%d decisions were set aside; the last: %s", len(reasons), reasons[-1])
            written = {row.decision_id for row in batch}
            # By id: the event loop may give some up for newer ones at any moment.
            while self._waiting:
                row = self._waiting.popleft()
                if row.decision_id not in written:
                    self._waiting.appendleft(row)
                    break
                self._written.append(row)

    def _refused(self, store: Store, rows: list[DecisionRow]) -> Iterator[str]:
        """Write decisions, set aside those that the store does not take, and say why it does not.

        Halves are tried of what fails, so that a few bad rows cost few transactions.
        """
        try:
            store.decisions.add(rows)
        except RowRefused as error:
            if len(rows) > 1:
                middle = len(rows) // 2
                for half in (rows[:middle], rows[middle:]):
                    yield from self._refused(store, half)
                return
            made = {"source": "nimod", "reason": str(error), "text": ascii(rows[0])}
            store.rejects.add([RejectRow(**made, read_s=int(self.clock()))])
            yield str(error)

    def _read(self, store: Store) -> None:
        version = store.fits.version()
        standings = store.standings.version()
        if (version, standings) == (self._version, self._standings):
            return
        off = store.standings.off()
        if version == self._version:
            tables = self._published.with_off(off)
        else:
            measured = store.profiles.latest()
            types = {(one.cluster, one.node): one.node_type for one in measured if one.node_type}
            # At the start nothing can be answered before they are loaded.
            pause = self.pause if len(self._published) else lambda: None
            renewed = partial(
                self._published.renewed,
                version=version,
                off=off,
                node_types=types,
                neighbours=Neighbours(store.records.find(*NEIGHBOURS)),
            )
            since = self._version
            tables = renewed(_in_slices(store.fits.payloads(since), pause), some=since is not None)
            if len(tables) != store.fits.count():  # others are gone
                tables = renewed(_in_slices(store.fits.payloads(), pause))
        self._published = tables
        self._version = version
        self._standings = standings
        self.publish(tables)


def _in_slices(items: Iterable[_Item], pause: Callable[[], None]) -> Iterator[_Item]:
    for number, item in enumerate(items, 1):
        yield item
        if number % _SLICE == 0:
            pause()
