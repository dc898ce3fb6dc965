"""Checks of NIMO's own parts: settings, store, what was learned, nimod."""

import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote

from sacct_ingest.errors import NimoError
from sacct_ingest.ingest.windows import reached
from sacct_ingest.records import Fault
from sacct_ingest.text.durations import duration_text
from slurm_plugin.doctor.installation import Finding, Installation, fine, skipped, warning, wrong
from slurm_plugin.nimod import client
from slurm_plugin.protocol.request_messages import Ask, Operation
from slurm_plugin.protocol.status_messages import Status, Uplinks
from slurm_plugin.store_access import count_outdated
from slurm_plugin.text.formatting import clock, count, percent

if TYPE_CHECKING:
    from sacct_ingest.store import Store

_Reply = TypeVar("_Reply", Status, Uplinks)
_TIMEOUT_S = 2.0
#: What begins a command that writes into the store.
_AS_NIMO = "sudo -u nimo nimo"
_SKEW_S = 5.0
_OLD_S = 2 * 86400  #: a nightly ingest that was missed once is no news, twice is
#: Share of rows from which on odd values of a column are worth a word.
_MANY_ODD = 0.01
_ODD_FIXES = {
    Fault.OVERFLOWED: "there is nothing to do in NIMO; a newer Slurm may give the right values",
    Fault.UNREADABLE: f"{_AS_NIMO} ingest; it shows such a value",
    Fault.CONTRADICTED: "check its unit against docs/sources.md",
}


def configuration(installation: Installation) -> Iterator[Finding]:
    """nimo.yaml can be read, and only its owner can write it."""
    place = installation.config_file
    if isinstance(installation.config, NimoError):
        yield wrong(
            str(installation.config), "correct it; 'nimo config --check' names what is wrong"
        )
    elif place is None:
        yield warning("there is no nimo.yaml: built-in settings are used", "nimo init")
    elif place.stat().st_mode & stat.S_IWOTH:
        yield wrong(f"every user can write {place}", f"chmod o-w {place}")
    else:
        yield fine(f"{place} is valid")


def store(installation: Installation) -> Iterator[Finding]:
    """Open the store: it exists, is of this release, and only its owner can read it."""
    from sacct_ingest.store.migrate import revision  # noqa: PLC0415 - the database is heavy
    from sacct_ingest.store.schema import HEAD  # noqa: PLC0415

    url = installation.settings.store_url
    try:
        release = revision(url)
    except NimoError as error:
        yield wrong(str(error), f"{_AS_NIMO} ingest; a database server must be reachable from here")
        return
    path = Path(url.removeprefix("sqlite:///"))
    is_file = url.startswith("sqlite:///") and path.exists()
    if is_file and (broken := _damage(path)):
        yield wrong(
            f"{path} is damaged ({broken})",
            f"systemctl stop nimod; mv {path} {path}.damaged; {_AS_NIMO} ingest; {_AS_NIMO} fit; "
            "systemctl start nimod",
        )
        return
    if release is None or release < HEAD:
        yield warning(
            f"an older release made the store ({release})" if release else "the store is empty",
            f"{_AS_NIMO} ingest",
        )
    elif release > HEAD:
        yield wrong("a newer release made the store", "upgrade NIMO here, too")
    else:
        yield fine("the store exists and fits this release")
    mode = path.stat().st_mode if is_file else 0
    if mode & stat.S_IWOTH:
        yield wrong(f"every user can write {path}", f"chmod o-rwx {path}")
    elif mode & stat.S_IROTH:
        yield warning(
            f"every user can read {path}, which holds all users' jobs", f"chmod o-r {path}"
        )


def _damage(path: Path) -> str:
    """Describe damage to the file of an SQLite store; empty: none."""
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)) as store:
            (result,) = store.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.OperationalError:
        return ""  # locked, or not ours to read: opening it says so
    except sqlite3.DatabaseError as error:
        return str(error)
    return "" if result == "ok" else str(result)


class _StoreNotRead(Exception):  # noqa: N818 - a noun, as in sacct_ingest.errors
    """Why a check that reads the store is left out; another one says how to mend it."""


@contextmanager
def _opened(installation: Installation) -> "Iterator[Store]":
    """Open the store of this release. Raises _StoreNotRead: it cannot be, or be read."""
    from sacct_ingest.store import Store  # noqa: PLC0415 - the database is heavy
    from sacct_ingest.store.migrate import revision  # noqa: PLC0415
    from sacct_ingest.store.schema import HEAD  # noqa: PLC0415

    url = installation.settings.store_url
    try:
        if revision(url) != HEAD:
            raise _StoreNotRead("the store is of another release")
        with Store.open(url, create=False) as opened:
            yield opened
    except NimoError as error:
        raise _StoreNotRead("the store cannot be opened") from error


def learned(installation: Installation) -> Iterator[Finding]:
    """Accounting was read and learned from not long ago."""
    from sacct_ingest.store.ingests import REFITTED  # noqa: PLC0415 - the database is heavy

    try:
        with _opened(installation) as opened:
            times_s = {
                "ingest": max(reached(opened.watermarks.all()).values(), default=None),
                "fit": opened.watermarks.get(REFITTED),
            }
            outdated = count_outdated(opened)
            unresolved = opened.unresolved()
    except _StoreNotRead as reason:
        yield skipped(str(reason))
        return
    if times_s["fit"] and not times_s["ingest"]:
        made = "only saved files were read, not the accounting: NIMO learns nothing new"
        yield warning(made, _each_hour("ingest"))
        del times_s["ingest"]
    if unresolved is not None:
        read = (
            f"{unresolved.runs:,} of {unresolved.of:,} stored runs are read by this release's rules"
        )
        yield warning(read, f"{_AS_NIMO} fit")
    if outdated:
        made = f"another release made {count(outdated, 'prediction')}: they are not used"
        yield warning(made, f"{_AS_NIMO} fit")
    for command, at_s in times_s.items():
        yield _age(command, at_s, installation.now_s)


def values(installation: Installation) -> Iterator[Finding]:
    """Say which columns of the accounting had values that could not be used."""
    try:
        with _opened(installation) as opened:
            shares = opened.value_counts.shares()
    except _StoreNotRead as reason:
        yield skipped(str(reason))
        return
    many = {value: share for value, share in shares.items() if share >= _MANY_ODD}
    if not many:
        yield fine("the values that accounting gives can be read")
    for (kind, column, fault), share in sorted(many.items(), key=itemgetter(1), reverse=True):
        said = f"{column} {Fault(fault).words} in {percent(share)} of {kind}s"
        yield warning(f"{said}: NIMO does not use these", _ODD_FIXES[Fault(fault)])


def _age(command: str, at_s: float | None, now_s: float) -> Finding:
    fix = _each_hour(command)
    if at_s is None:
        return warning(f"nimo {command} has not run yet: NIMO cannot predict", fix)
    done = {"ingest": "accounting read", "fit": "fitted"}[command]
    when = f"{done} {duration_text(max(now_s - at_s, 0))} ago"
    return warning(when, fix) if now_s - at_s > _OLD_S else fine(when)


def _each_hour(command: str) -> str:
    return f"{_AS_NIMO} {command}; each hour: systemctl enable --now nimo-ingest.timer"


def nimod(installation: Installation) -> Iterator[Finding]:
    """Nimod answers, is of this release, and sees the cluster."""
    status = _asked("status", Status, installation, "nimod")
    if isinstance(status, Finding):
        yield status
        return
    yield _release("nimod", status.release, "nimod")
    if status.store_trouble:
        yield wrong(
            f"nimod has no store: {status.store_trouble}",
            "put the store back in its place, or restart nimod, which makes a new one",
        )
    elif status.store_changed_s is not None:
        yield warning(
            f"another store replaced the one that nimod uses {clock(status.store_changed_s)}",
            "if it is the right one, restart nimod; the latest decisions are in both",
        )
    age_s = status.snapshot_age_s
    most_s = installation.settings.snapshot.max_age_s
    if age_s is None or age_s > most_s:
        snapshot = (
            "has not read the cluster's state yet"
            if age_s is None
            else f"read the cluster's state {duration_text(age_s)} ago"
        )
        yield wrong(f"nimod {snapshot}: jobs pass unchanged", "read its log: journalctl -u nimod")
    else:
        yield fine(f"nimod read the cluster's state {duration_text(age_s)} ago")

    if installation.settings.relay.listen:
        yield fine(f"connected relays: {', '.join(status.relays) or 'none'}")


def relay(installation: Installation) -> Iterator[Finding]:
    """Check the relay of a login node: it answers and is of this release; its key is secret."""
    settings = installation.settings
    links = _asked("links", Uplinks, installation, "nimo-relay")
    if isinstance(links, Finding):
        yield links
    else:
        yield _release("the relay", links.release, "nimo-relay")
    key = Path(settings.relay.tls.key)
    if settings.relay.tls.key and key.exists() and key.stat().st_mode & (stat.S_IROTH):
        yield wrong(f"every user can read {key}", f"chmod o-r {key}; then have a new one made")


def _asked(
    op: Operation, kind: type[_Reply], installation: Installation, unit: str
) -> _Reply | Finding:
    """Ask a service; what is wrong where it does not answer."""
    log = f"read its log: journalctl -u {unit}"
    try:
        return client.exchange(installation.settings.socket, Ask(op=op), kind, _TIMEOUT_S)
    except client.Unanswered as error:
        return wrong(f"{error}: it runs, but does not answer", f"systemctl restart {unit}; {log}")
    except client.Unreachable as error:
        return wrong(str(error), f"systemctl start {unit}; {log}")


def _release(service: str, release: str, unit: str) -> Finding:
    """Hold the release of a service that answers against the one that is installed."""
    from importlib.metadata import version  # noqa: PLC0415 - slow to load, for nimo init too

    if release == (installed := version("nimo-slurm")):
        return fine(f"{service} {release} answers")
    return warning(
        f"{service} is release {release}, this is {installed}", f"systemctl restart {unit}"
    )


def link(installation: Installation) -> Iterator[Finding]:
    """Check each link of the relay: it is up, releases and clocks agree."""
    try:
        links = client.exchange(installation.settings.socket, Ask(op="links"), Uplinks, _TIMEOUT_S)
    except client.Unreachable:
        yield skipped("there is no relay")
        return
    up = any(not one.trouble for one in links.links)
    for one in links.links:
        if one.trouble:
            make = warning if up else wrong
            yield make(
                f"no link to nimod on {one.controller}: {one.trouble}",
                "systemctl status nimod there; log here: journalctl -u nimo-relay",
            )
            continue
        yield fine(f"linked to nimod on {one.controller} by {one.auth}")
        if one.release != links.release:
            yield warning(
                f"nimod there is release {one.release}, the relay {links.release}",
                "install the same release of NIMO on both",
            )
        if abs(one.clock_offset_s) > _SKEW_S:
            yield wrong(
                f"the clock there is {one.clock_offset_s:+.0f} s off; munge refuses from 300 s on",
                "synchronise both clocks (chrony, systemd-timesyncd)",
            )


def reach(installation: Installation) -> Iterator[Finding]:
    """Slurmctld and users may go to the socket."""
    socket = Path(installation.settings.socket)
    if not socket.exists():
        yield skipped(f"no {socket}")
        return
    closed = [folder for folder in socket.parents if not folder.stat().st_mode & stat.S_IXOTH]
    if closed:
        yield wrong(f"slurmctld and users cannot enter {closed[0]}", f"chmod o+x {closed[0]}")
    elif socket.stat().st_mode & 0o666 != 0o666:
        yield wrong(f"some users cannot connect to {socket}", "systemctl restart nimod")
    else:
        yield fine(f"slurmctld and users reach {socket}")
