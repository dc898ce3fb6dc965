"""Which runs ``nimo waste`` looks at: the site's store, the accounting itself, or saved files."""

import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from predictor.stored_table import encode
from predictor.tables.build import IdentityRuns
from predictor.tables.parts import tables_of
from sacct_ingest.errors import NoHistory, SlurmError
from sacct_ingest.ingest.into_store import IngestSettings, ingest
from sacct_ingest.ingest.windows import Pace, PaceSettings
from sacct_ingest.runs.layout import layouts_of_run
from sacct_ingest.sources.run_source import RunSource
from sacct_ingest.sources.sacct import LiveSacct
from sacct_ingest.sources.saved import SavedSacct
from sacct_ingest.store import Store
from sacct_ingest.store.rows import DecisionSelection
from slurm_plugin.cli import own_history
from slurm_plugin.cli.progress import progress
from slurm_plugin.cli.table_settings import table_settings
from slurm_plugin.cli.through_nimod import may_read_store, own_history_is_meant
from slurm_plugin.config.settings import Config
from slurm_plugin.decision.lookup import PredictionLookup
from slurm_plugin.evaluation.waste_data import TableOf, widest
from slurm_plugin.slurm import commands, sources
from slurm_plugin.slurm.cluster_state import RawState
from slurm_plugin.slurm.job_request import user_name
from slurm_plugin.slurm.slurm_conf import CONFIG, may_update, read_settings
from slurm_plugin.store_access import open_store, table_finder, visibility_for

#: Identities that are fitted where no refit did: those of most node-hours.
_FITTED = 16
#: Newest runs of an identity that its fit looks at, where nothing but the knee is asked of it.
_RECENT = 200
_DAY_S = 86_400
_WIDEST_S = 7 * _DAY_S  #: window of sacct, where it answers at once
_AT_ONCE_S = 4.0


@dataclass(frozen=True, slots=True)
class Runs:
    """A store with runs, whose of them may be seen, and the tables of their applications."""

    store: Store
    table_of: TableOf
    slurm: RawState | None
    own: bool = False  #: all are those of the user who asks
    only_user: str | None = None  #: see `DecisionSelection`
    only_accounts: tuple[str, ...] = ()
    why: str = ""  #: in words, where not all are seen


@contextmanager
def runs_of_files(
    paths: Sequence[Path], config: Config, chosen: DecisionSelection
) -> Iterator[Runs]:
    """Read saved histories."""
    cluster = chosen.cluster or config.cluster
    files = [SavedSacct(path, cluster) for path in paths]
    with _read(files, chosen) as store:
        yield Runs(store, _fitted(store, config, chosen), None)


@contextmanager
def runs_of_store(config: Config) -> Iterator[Runs]:
    """Open the configured store."""
    rules = visibility_for(config, os.getuid(), user_name())
    seen = rules.only_user, rules.accounts
    own = rules.only_user is not None and not rules.accounts
    with open_store(config) as store:
        yield Runs(store, table_finder(store), _slurm(config), own, *seen, rules.why)


@contextmanager
def runs_of_user(config: Config, chosen: DecisionSelection) -> Iterator[Runs]:
    """Read the user's own jobs, which are kept from one question to the next."""
    config = own_history.refreshed(config, [])
    with open_store(config) as store:
        yield Runs(store, _fitted(store, config, chosen), _slurm(config), own=True)


@contextmanager
def runs_of_site(config: Config, chosen: DecisionSelection) -> Iterator[Runs]:
    """Read all users' jobs from the accounting."""
    cluster = chosen.cluster or config.cluster
    source = LiveSacct(cluster=cluster, timeout_s=config.ingest.timeout_s)
    with _read([source], chosen) as store:
        yield Runs(store, _fitted(store, config, chosen), _slurm(config))


def is_admin(config: Config) -> bool:
    """Whether sacct shows this user all jobs: root, SlurmUser or an operator."""
    run = partial(commands.run, timeout_s=config.local.timeout_s)
    try:
        return may_update(read_settings(run(CONFIG)).slurm_user, run)
    except SlurmError:
        return os.geteuid() == 0


def has_store(config: Config) -> bool:
    """Whether there is a store of NIMO's that this user can read."""
    return not own_history_is_meant(config) and may_read_store(config)


@contextmanager
def _read(given: Sequence[RunSource], chosen: DecisionSelection) -> Iterator[Store]:
    """Read sources into a store that is gone afterwards."""
    now_s = int(time.time())
    pace = Pace(PaceSettings(window_s=_WIDEST_S, slow_s=_AT_ONCE_S, share=1.0))
    pace.width_s = _DAY_S
    with (
        tempfile.TemporaryDirectory(prefix="nimo-waste-") as folder,
        Store.open(f"sqlite:///{folder}/runs.db?journal=DELETE", create=True) as store,
    ):
        with progress("reading jobs") as report:
            for source in given:
                since_s = int(chosen.since_s or now_s - 30 * _DAY_S) if source.windowed else None
                ingest(
                    store,
                    source,
                    now_s=now_s,
                    since_s=since_s,
                    until_s=None if chosen.until_s is None else int(chosen.until_s),
                    settings=IngestSettings(),
                    progress=report,
                    pace=pace,
                )
        if not store.runs.count():
            raise NoHistory("there is no job that has ended")
        yield store


def _fitted(store: Store, config: Config, chosen: DecisionSelection) -> TableOf:
    """Fit what ran on several counts, by its newest runs; give what finds the table of a run."""
    settings = table_settings(config)
    payloads = []
    now_s = time.time()
    with progress("fitting") as report:
        for level, key in widest(store.runs.selected(chosen), most=_FITTED):
            rows = store.runs.of_key(level, key, most=_RECENT)
            fitted = tables_of(IdentityRuns(level, key, rows, now_s), settings)
            tables = [one.table for one in fitted if one.table is not None]
            payloads += [(one.level, one.key, encode(one)) for one in tables]
            report(1, "applications")
    lookup = PredictionLookup(payloads)
    return lambda run: lookup.find(
        run.identity, layouts_of_run(run), attributes=lambda: run.attributes
    )


def _slurm(config: Config) -> RawState | None:
    """Ask for nodes and partitions; None: Slurm does not answer."""
    ask = partial(commands.run, timeout_s=config.local.timeout_s)
    try:
        return sources.read_text("", ask(sources.SINFO), ask(sources.PARTITIONS))
    except SlurmError:
        return None
