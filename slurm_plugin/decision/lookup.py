"""The prediction tables in memory: looked up at every submission.

They stay packed, and are decoded when a job first asks for one: most of a hundred thousand are not
asked for between two refits.  Packed ones take a tenth of the memory of decoded ones, and the
garbage collector does not walk through them.
"""

import logging
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial, reduce

import msgspec

from predictor.application.surface import OWN_RUNS, beside_own, for_sizes
from predictor.job_table import for_layout, for_numbers, is_otherwise, part_for
from predictor.neighbours import Neighbours
from predictor.prediction_table import PredictionTable
from predictor.stored_table import acting_of, decode, is_current, whole_key
from predictor.table import at, covers, worse
from predictor.types import Point, Verdict
from sacct_ingest.records import Identity, KeyLevel
from sacct_ingest.runs.attributes import numbers_of
from sacct_ingest.runs.layout import Layout, second_sizes
from sacct_ingest.runs.sharing import SharedTag

_log = logging.getLogger(__name__)
_DECODED = 2048  #: most decoded tables in the cache
_FETCHED = 512  #: most of another process's
_NONE: Mapping[str, bytes] = {}
_RAW = -15  #: wbits of zlib without header and checksum


class PackedTables:
    """Texts of tables, by level and key, each compressed on its own.

    They are alike: beside one of them as a dictionary, a text of 4 KB takes 1.3 KB, in 33 µs, and
    is back in 11.
    """

    def __init__(self) -> None:
        # By level and then by key: a key of both would be one more object for the collector.
        self._packed: dict[str, dict[str, bytes]] = defaultdict(dict)
        self._dictionary = b""
        #: Level and key of those that other models made: they wait for a refit.
        self._outdated: set[tuple[str, str]] = set()

    def __len__(self) -> int:
        return sum(map(len, list(self._packed.values())))

    def put(self, level: str, key: str, payload: str) -> None:
        """Keep the text of a table."""
        text = payload.encode()
        if is_current(text):
            self._outdated.discard((level, key))
        else:
            self._outdated.add((level, key))
        self._dictionary = self._dictionary or text
        packer = zlib.compressobj(1, wbits=_RAW, zdict=self._dictionary)
        self._packed[level][key] = packer.compress(text) + packer.flush()

    def drop(self, level: str, key: str) -> None:
        """Forget a table, where it is there."""
        self._outdated.discard((level, key))
        if level in self._packed:
            self._packed[level].pop(key, None)

    @property
    def outdated(self) -> int:
        """How many tables other models made: they are not used."""
        return len(self._outdated)

    def identities(self) -> Iterator[tuple[str, str]]:
        """Give level and key of each table, also while another thread puts and drops some."""
        for level, tables in list(self._packed.items()):
            yield from ((level, key) for key in list(tables))

    def table(self, level: str, key: str) -> PredictionTable | None:
        """Decode a table; None where there is none, or it is damaged."""
        packed = self._packed.get(level, _NONE).get(key)
        return None if packed is None else _decoded(packed, self._dictionary, key)

    def text(self, level: str, key: str) -> str | None:
        """Give the text of a table; None where there is none."""
        packed = self._packed.get(level, _NONE).get(key)
        if packed is None:
            return None
        return zlib.decompressobj(_RAW, self._dictionary).decompress(packed).decode()


class FetchedTables(PackedTables):
    """Tables of another process, fetched when first asked for.

    fetch: gives the text of one by level and key; None where there is none.
    count: how many there are.
    """

    def __init__(self, fetch: Callable[[str, str], str | None], count: int) -> None:
        super().__init__()
        self._fetch = fetch
        self._count = count
        self._fetched = lru_cache(maxsize=_FETCHED)(self._asked)

    def __len__(self) -> int:
        return self._count

    def table(self, level: str, key: str) -> PredictionTable | None:
        """Give a table; None where there is none, or it is damaged."""
        return self._fetched(level, key)

    def _asked(self, level: str, key: str) -> PredictionTable | None:
        text = self._fetch(level, key)
        return None if text is None else _read(text.encode(), key)


class PredictionLookup:
    """All prediction tables of one state of the store.

    payloads: level and key of each identity, with the text of its table.
    off: level and key of the identities that are switched off for what their predictions missed.
    node_types: type of each node that was measured, by cluster and name.
    packed: where the tables are, if not among ``payloads``.
    neighbours: what past jobs say of commands that never ran.
    """

    def __init__(
        self,
        payloads: Iterable[tuple[str, str, str]] = (),
        *,
        version: int | None = None,
        off: Iterable[tuple[str, str]] = (),
        node_types: Mapping[tuple[str, str], str] | None = None,
        packed: PackedTables | None = None,
        neighbours: Neighbours | None = None,
    ) -> None:
        newest = PackedTables() if packed is None else packed
        for level, key, payload in payloads:
            newest.put(level, key, payload)
        #: The newest first; several only while `renewed` is at work.
        self._states = [newest]
        #: Level and key of the identities that are switched off.
        self.off = frozenset(off)
        self.node_types = node_types or {}
        self.version = version  #: of the store's tables; None: not read yet
        self.neighbours = neighbours or Neighbours()

    def __len__(self) -> int:
        return sum(map(len, self._states))

    @property
    def outdated(self) -> int:
        """How many tables other models made: they are not used, and wait for a refit."""
        return sum(state.outdated for state in list(self._states))

    def with_off(self, off: Iterable[tuple[str, str]]) -> "PredictionLookup":
        """Make the same tables with other identities switched off."""
        made = PredictionLookup(
            version=self.version, off=off, node_types=self.node_types, neighbours=self.neighbours
        )
        made._states = self._states
        return made

    def renewed(
        self,
        payloads: Iterable[tuple[str, str, str]],
        *,
        version: int | None,
        off: Iterable[tuple[str, str]],
        node_types: Mapping[tuple[str, str], str],
        neighbours: Neighbours | None = None,
        some: bool = False,
    ) -> "PredictionLookup":
        """Make the tables of the next state, and give up these one by one meanwhile.

        So nothing is there twice.  Who looks something up here in between gets the new table where
        it has come, else the old one.  If `payloads` breaks off, these tables stay complete.

        some: the others stay as they are.
        """
        newest = self._states[0] if some else PackedTables()
        self._states[:] = [newest, *(one for one in self._states if one is not newest and len(one))]
        for level, key, payload in payloads:
            newest.put(level, key, payload)
            for state in self._states[1:]:
                state.drop(level, key)
        made = PredictionLookup(
            version=version, off=off, node_types=node_types, neighbours=neighbours
        )
        made._states = self._states if some else [newest]
        return made

    def text(self, level: str, key: str) -> str | None:
        """Give the text of a table; None where there is none."""
        texts = (state.text(level, key) for state in (*self._states, self._states[0]))
        return next((text for text in texts if text is not None), None)

    def is_off(self, table: PredictionTable) -> bool:
        """Whether what came of this table's predictions switched it off."""
        return (table.level, table.key) in self.off

    def parts(self) -> list[tuple[KeyLevel, str]]:
        """List where the tables of the parts of these tables are."""
        all_keys = [one for state in self._states for one in state.identities()]
        stored = ((level, self._table(level, key)) for level, key in all_keys)
        return [
            (KeyLevel(level), part.key) for level, table in stored if table for part in table.parts
        ]

    def find(
        self,
        identity: Identity,
        layouts: tuple[Layout, ...] | None = None,
        *,
        shared: Sequence[str] = (),
        attributes: Callable[[], Mapping[str, str]] = dict,
        acting: bool = False,
    ) -> PredictionTable | None:
        """Find the table that says most about an application.

        The most specific one that holds a curve, unless a broader one says the same with more
        behind it; else the most specific one.  A script that was edited has no curve of its own
        yet, or one of few node counts, where its command line may have one of many.  So have first
        runs that nimod decided about: of those before it the accounting has no script.

        layouts: how the job spreads over its nodes: `slurm_plugin.decision.sizes.layouts_of`;
            None: that is left open.
        shared: keys of tags that the user shares with others: looked at where the user's own runs
            make no curve.
        attributes: gives the job's attributes by name (:mod:`sacct_ingest.runs.attributes`).
        acting: to change a job by, not to show: no other user's runs have a say.
        """
        table_at = partial(self._table, acting=acting)
        candidates = [
            table
            for level in KeyLevel
            if (key := identity.key(level))
            and (table := _for_job(table_at, level, key, layouts, attributes)) is not None
        ]
        candidates = _without_refused_guesses(_of_same_tag(candidates, identity))
        first = _by_line(candidates) or next(iter(candidates), None)
        if (of_family := self._of_family(candidates)) is not None:
            return of_family
        curves = [t for t in candidates if t.is_curve and t.verdict is not Verdict.REFUSED]
        if curves:
            return reduce(_broader, curves)
        tags = KeyLevel.TAG.value
        others = (_for_job(table_at, tags, key, layouts, attributes) for key in shared)
        return next((t for t in others if t is not None and t.is_curve), first)

    def _of_family(self, candidates: Sequence[PredictionTable]) -> PredictionTable | None:
        """Give the table of few runs' family, where they have one: runs of other sizes."""
        own = next(iter(candidates), None)
        if own is None or own.surface is not None or self.is_off(own):
            return None
        family = next((one for one in candidates if one.surface is not None), None)
        if family is None or is_otherwise(family):
            return None
        enough = own.runs >= OWN_RUNS and (own.is_curve or not family.is_curve)
        return None if enough else beside_own(family, own)

    def laid_out_otherwise(self, table: PredictionTable) -> list[PredictionTable]:
        """Give the tables of the same problem with other second sizes, its own among them.

        Smallest first; empty: there are none.
        """
        whole = self._table(table.level, whole_key(table.key))
        parts = whole.parts if whole else ()
        values = next((part.values for part in parts if part.key == table.key), ())
        alike = [part for part in parts if part.values == values]
        sizes = second_sizes([part.layout for part in alike])
        ordered = sorted(alike, key=lambda part: sizes.get(part.layout, 0)) if sizes else []
        found = (self._table(table.level, part.key) for part in ordered)
        numbers = {term.name: term.reference for term in table.sizes}
        return [for_sizes(one, numbers) for one in found if one is not None]

    def _table(self, level: str, key: str, *, acting: bool = False) -> PredictionTable | None:
        # The newest once more: a table may have come there since, and have left the older ones.
        for state in (*self._states, self._states[0]):
            if (table := state.table(level, key)) is not None:
                return _acting(table) if acting else table
        return None


def _for_job(
    table_at: Callable[[str, str], PredictionTable | None],
    level: str,
    key: str,
    layouts: tuple[Layout, ...] | None,
    attributes: Callable[[], Mapping[str, str]],
) -> PredictionTable | None:
    table = table_at(level, key)
    if table is None:
        return None
    part = part_for(table, layouts, attributes)
    own = table_at(level, part.key) if part else None
    chosen = own or (table if layouts is None else for_layout(table, layouts))
    if not (chosen.sizes or (chosen.need and chosen.need.terms)):
        return chosen
    numbers = numbers_of(attributes())
    return for_numbers(for_sizes(chosen, numbers), numbers)


_acting = lru_cache(maxsize=_DECODED)(acting_of)


@lru_cache(maxsize=_DECODED)
def _broader(narrow: PredictionTable, broad: PredictionTable) -> PredictionTable:
    """Give the broader curve if it has more node counts and contains the runs of both.

    The runs of the narrow one then lie within the intervals of the broad one: there is no sign
    that they are two applications.
    """
    has_more = (
        len(broad.observed) > len(narrow.observed)
        and broad.node_type == narrow.node_type
        and worse(broad.verdict, narrow.verdict) is narrow.verdict
    )
    return broad if has_more and all(_holds(broad, point) for point in narrow.observed) else narrow


def _of_same_tag(
    candidates: Sequence[PredictionTable], identity: Identity
) -> list[PredictionTable]:
    """Leave out tables of runs that were tagged as other applications, where the tag has runs.

    Its user says which application a run is.  A script that several share is known where nimod saw
    the jobs and not in the accounting: without this the two would count in different units.
    """
    has_runs = any(one.level == KeyLevel.TAG for one in candidates)
    same = {identity.program}
    return [one for one in candidates if not has_runs or same.issuperset(one.tagged)]


def _without_refused_guesses(candidates: Sequence[PredictionTable]) -> list[PredictionTable]:
    """Leave out guesses from jobs that were laid out otherwise, where there is another table."""
    rest = [one for one in candidates if not (one.is_guess and is_otherwise(one))]
    return rest or list(candidates)


def _by_line(candidates: Sequence[PredictionTable]) -> PredictionTable | None:
    """Give the history of the command line, where that of the script says too little yet.

    The runs of the script lie within its intervals: there is no sign that it is another one.
    """
    by_level = {table.level: table for table in candidates}
    script = by_level.get(KeyLevel.SCRIPT)
    line = by_level.get(KeyLevel.LINE)
    if script is None or line is None or candidates[0] is not script:
        return None
    if script.verdict is not Verdict.REFUSED or line.verdict is Verdict.REFUSED:
        return None
    return line if all(_holds(line, point) for point in script.observed) else None


def _holds(table: PredictionTable, point: Point) -> bool:
    if not covers(table, point.nodes):
        return False
    predicted = at(table, point.nodes)
    return predicted.low_s <= point.time_s <= predicted.high_s


@lru_cache(maxsize=_DECODED)
def _decoded(packed: bytes, dictionary: bytes, key: str) -> PredictionTable | None:
    return _read(zlib.decompressobj(_RAW, dictionary).decompress(packed), key)


def _read(text: bytes, key: str) -> PredictionTable | None:
    try:
        return decode(text)
    except msgspec.DecodeError as error:
        _log.warning(
            "the table of %s cannot be read and is not used: %s; 'nimo fit' makes a new one",
            key,
            error,
        )
        return None


def shared_by(tags: Sequence[SharedTag], identity: Identity, account: str) -> dict[str, SharedTag]:
    """Tags that the user of a job shares with others, by their key.

    account: the job's, as the accounting has it.
    """
    application = identity.application
    if not application:
        return {}
    return {
        one.key(application): one
        for one in tags
        if one.covers(application) and one.admits(identity.user, account)
    }
