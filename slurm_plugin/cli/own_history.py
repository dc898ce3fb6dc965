"""A user's own history, where no nimod answers: read from sacct, kept in the user's own folder.

It is an ingest and a fit into a store of one's own, of what the question needs.  On a home that
several login nodes share, one of them at a time reads (``flock``, which NFS passes on since Linux
2.6.12), and the database has a rollback journal: a write-ahead log would need shared memory.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Collection
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from predictor.stored_table import is_current
from sacct_ingest.errors import SacctError, SlurmError, StoreError, system_errors
from sacct_ingest.files.atomic_file import locked
from sacct_ingest.records import KeyLevel
from slurm_plugin.cli.input_files import WAIT_S, look_at_own
from slurm_plugin.cli.progress import progress
from slurm_plugin.cli.table_settings import table_settings
from slurm_plugin.config.settings import data_folder
from slurm_plugin.decision.submitted_job import identity_of
from slurm_plugin.slurm import commands
from slurm_plugin.slurm.job_request import user_name
from slurm_plugin.slurm.slurm_conf import CONFIG, cluster_name, read_settings
from slurm_plugin.store_access import count_outdated, open_store
from slurm_plugin.text.formatting import count

if TYPE_CHECKING:
    from sacct_ingest.ingest.into_store import IngestSummary
    from sacct_ingest.store import Store
    from slurm_plugin.config.settings import Config
    from slurm_plugin.protocol.request_messages import Job

_DAY_S = 86_400
_WIDEST_S = 30 * _DAY_S  #: window of sacct, where it answers at once
_AT_ONCE_S = 4.0
_MODE = 0o600
#: Mark of when sacct was asked last, whatever it answered.
ASKED = "own history asked"
#: About a job of which nothing has ended yet, and about the last jobs, sacct is asked so often.
_ASK_AGAIN_S = 60.0
_UNUSUAL = re.compile(r"[^\w.-]")  #: in a name of a file


def with_own_store(config: Config) -> Config:
    """Give the configuration with the name of this cluster, and the user's own history of it.

    A home that several clusters share has a file for each.

    Raises SlurmError: no cluster is configured, and Slurm does not say which this is.
    """
    cluster = config.cluster or _cluster(config)
    return replace(config, store=f"sqlite:///{_place(cluster)}?journal=DELETE", cluster=cluster)


def place(config: Config) -> Path:
    """File of the user's own history, with a configuration of `with_own_store`."""
    return _place(config.cluster)


def _place(cluster: str) -> Path:
    return data_folder() / f"local-{_UNUSUAL.sub('_', cluster)}.db"


def refreshed(
    config: Config, keys: Collection[tuple[KeyLevel, str]] | None = None, *, program: str = "nimo"
) -> Config:
    """Read what is new, fit what changed, and give the configuration with that store.

    keys: identities that are asked about; None: all; none of them: no fit, and the last jobs.
    Raises StoreError: the folder or the file cannot be written.
    """
    made = with_own_store(config)
    path = place(made)
    _forget_if_mixed(made)
    first = _prepared(path)
    begun_s = time.monotonic()
    with open_store(made, create=True) as store:
        pause_s = made.local.every_min * 60
        if keys is not None and not _knows(store, keys):
            pause_s = min(pause_s, _ASK_AGAIN_S)
        done = _read_in_turn(store, path, made, pause_s=pause_s, program=program)
        if done and made.inputs:
            with progress("looking at input files") as report:
                look_at_own(store, report, wait_s=WAIT_S)
        read_s = time.monotonic() - begun_s
        _fit(store, made, keys)
    fit_s = time.monotonic() - begun_s - read_s
    if done and (first or done.new) and read_s + fit_s > 1:
        where = f"; kept in {path} ('nimo local --forget' deletes it)" if first else ""
        jobs = count(done.new, "new job")
        _say(program, f"read {jobs} of yours in {read_s:.1f} s, fitted in {fit_s:.1f} s{where}")
    return made


def refreshed_for(job: Job, config: Config, *, program: str) -> Config:
    """Refresh what a job is recognised by, as `refreshed` does."""
    identity = identity_of(job)
    keys = [(level, key) for level in KeyLevel if (key := identity.key(level))]
    return refreshed(config, keys, program=program)


def asked_s(store: Store) -> int | None:
    """When the accounting was asked last, seconds since the epoch; None: never."""
    return store.watermarks.get(ASKED)


def ask_again(config: Config) -> None:
    """Have the next question ask sacct, whenever it was asked last."""
    own = with_own_store(config)
    if place(own).exists():
        with open_store(own) as store:
            store.watermarks.forget(ASKED)


def forget(config: Config) -> list[Path]:
    """Delete the history of this cluster; give the files that were there.

    config: of `with_own_store`.
    """
    path = place(config)
    files = [path, *(path.with_name(path.name + end) for end in ("-journal", "-ingest", ".lock"))]
    gone = [one for one in files if one.exists()]
    for one in gone:
        one.unlink(missing_ok=True)
    return gone


def _say(program: str, text: str) -> None:
    print(f"{program}: {text}", file=sys.stderr)


def _cluster(config: Config) -> str:
    try:
        return cluster_name(partial(commands.run, timeout_s=config.local.timeout_s))
    except SlurmError as error:
        raise SlurmError(
            f"{error}; NIMO must know which cluster this is, to read your jobs on it: try again, "
            "or write 'cluster: NAME' into the file that NIMO_CONFIG names"
        ) from error


def _forget_if_mixed(config: Config) -> None:
    """Delete a history with other clusters' jobs, which an earlier release had read into it."""
    if place(config).exists():
        with open_store(config, create=True) as store:
            mixed = store.runs.clusters() - {config.cluster}
        if mixed:
            forget(config)


def _prepared(path: Path) -> bool:
    """Make the file, which only its user may read; whether it was not there."""
    with system_errors(StoreError, path, "; set XDG_DATA_HOME to a folder that you may write to"):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _MODE))
            return True
    return False


def _knows(store: Store, keys: Collection[tuple[KeyLevel, str]]) -> bool:
    """Whether runs of what is asked about were read, not only others of its user."""
    own = ((level, key) for level, key in keys if level is not KeyLevel.USER)
    return any(store.runs.of_key(level, key, most=1) for level, key in own)


def _read_in_turn(
    store: Store, path: Path, config: Config, *, pause_s: float, program: str
) -> IngestSummary | None:
    """Read what is new if it is time to; one process of all login nodes does.

    pause_s: from one question to the next.
    """
    if not _due(store, pause_s):
        return None
    try:
        with locked(path, waiting=lambda: _say(program, "another process reads; waiting for it")):
            if not _due(store, pause_s):
                return None
            _ask_nodes(store, config)
            try:
                done = _read(store, config)
                # With PrivateData it hides the jobs of a user without an association.
                lacks = "" if store.runs.count() else "sacct shows no job of yours"
            except SacctError as error:
                done = None
                lacks = str(error)
            if lacks:
                _say(program, f"{lacks}; {_from_queue(store, config)}")
            store.watermarks.set(ASKED, int(time.time()))
            return done
    except OSError as error:
        raise StoreError(
            f"{path}: {error.strerror or error}: where its file system has no locks, set "
            "XDG_DATA_HOME to one that has"
        ) from error


def _ask_nodes(store: Store, config: Config) -> None:
    """Keep the nodes of this cluster as Slurm shows them; without an answer, those of before."""
    from sacct_ingest.store.fits import NODES  # noqa: PLC0415 - the database is heavy
    from sacct_ingest.store.rows import RecordRow  # noqa: PLC0415
    from slurm_plugin.slurm import sources  # noqa: PLC0415 - not for each answer
    from slurm_plugin.slurm.known_nodes import stored_form  # noqa: PLC0415
    from slurm_plugin.slurm.snapshot import build  # noqa: PLC0415

    ask = partial(commands.run, timeout_s=config.local.timeout_s)
    with suppress(SlurmError):
        conf = read_settings(ask(CONFIG))
        if conf.cluster != config.cluster:
            return  # Slurm shows the nodes of another one
        raw = sources.read_text("", ask(sources.SINFO), ask(sources.PARTITIONS))
        view = build(raw, conf, cluster=conf.cluster, taken_s=time.time())
        payload = stored_form(view)
        store.records.put(RecordRow(level=NODES, key=conf.cluster, payload=payload))


def _due(store: Store, pause_s: float) -> bool:
    asked = asked_s(store)
    return asked is None or not 0 <= time.time() - asked < pause_s


def _read(store: Store, config: Config) -> IngestSummary:
    """Read the user's jobs: a day first, then ever longer windows while sacct answers at once."""
    from sacct_ingest.ingest.into_store import IngestSettings, ingest  # noqa: PLC0415
    from sacct_ingest.ingest.windows import Pace, PaceSettings, SpanSettings  # noqa: PLC0415
    from sacct_ingest.sources.sacct import LiveSacct  # noqa: PLC0415

    chosen = config.local
    now_s = int(time.time())
    source = LiveSacct(
        cluster=config.cluster,
        timeout_s=chosen.timeout_s,
        user=str(os.getuid()),
        steps_since_s=now_s - chosen.steps_days * _DAY_S,
    )
    span = SpanSettings(first_s=chosen.days * _DAY_S, again_s=3 * _DAY_S)
    give_up_s = time.monotonic() + 1.5 * chosen.timeout_s

    class Patient(Pace):
        def narrow(self) -> bool:
            return time.monotonic() < give_up_s and super().narrow()

    pace = Patient(PaceSettings(window_s=_WIDEST_S, slow_s=_AT_ONCE_S, share=1.0))
    pace.width_s = _DAY_S
    with progress("reading your jobs") as report:
        return ingest(
            store,
            source,
            now_s=now_s,
            settings=IngestSettings(span=span, copies_of=None),
            progress=report,
            pace=pace,
        )


def _from_queue(store: Store, config: Config) -> str:
    """Take the user's jobs that slurmctld still has from squeue; say what that came to."""
    from sacct_ingest.ingest.ended_jobs import add_from_queue  # noqa: PLC0415

    squeue = partial(commands.run, timeout_s=config.local.timeout_s)
    try:
        here = _cluster(config)
        if here != config.cluster:
            return f"squeue is not asked, which shows the jobs of {here}"
        made = add_from_queue(store, squeue, cluster=here, user=user_name())
    except SlurmError as error:
        return f"nor is there an answer of squeue: {error}"
    if not store.runs.count():
        return "nor does squeue show one that ended in the last minutes"
    return (
        f"squeue shows {count(made, 'job')} that ended in the last minutes; what was read "
        "before stands"
    )


def _fit(store: Store, config: Config, keys: Collection[tuple[KeyLevel, str]] | None) -> None:
    """Fit the identities among ``keys`` that changed since their last fit, or that others made."""
    store.resolve()
    store.changes.collect()
    changed = any(page for level in KeyLevel for page in store.changes.pages(level, 1, keys))
    if not changed and not _outdated(store, keys):
        return
    from predictor.refit import refit  # noqa: PLC0415 - scipy takes a second

    with progress("fitting") as report:
        refit(
            store,
            now_s=time.time(),
            settings=table_settings(config),
            only=keys,
            queues=False,
            workers=min(config.fit.workers or os.cpu_count() or 1, 4),
            progress=lambda identities: report(identities, "applications"),
        )


def _outdated(store: Store, keys: Collection[tuple[KeyLevel, str]] | None) -> bool:
    """Whether the models of another release made one of the tables that are asked for."""
    if keys is None:
        return count_outdated(store) > 0
    return not all(is_current(row.payload) for row in store.fits.find(list(keys)))
