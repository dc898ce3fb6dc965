"""Reports that ``nimo fit`` leaves in the store once a day: a page that begins has one at once."""

import base64
import zlib
from importlib.metadata import version
from typing import TYPE_CHECKING

import msgspec

from sacct_ingest.store import DecisionSelection, RecordRow
from slurm_plugin.config.settings import Config
from slurm_plugin.evaluation.outcomes import VERSION, OutcomeReport
from slurm_plugin.evaluation.report_data import collect

if TYPE_CHECKING:  # the database is heavy, and --help needs none
    from sacct_ingest.store import Store

#: Level, in ``records``, of reports on the decisions of the last days; the key is their number.
REPORTS = "reports"
#: Days that the page of savings shows first.
SAVINGS_DAYS = 90
_DAY_S = 86_400.0
#: Age from which a report is made anew.
_GOOD_S = _DAY_S


def decided_within(days: int, *, now_s: float) -> DecisionSelection:
    """Select the decisions of the last days; 0: all."""
    return DecisionSelection(since_s=now_s - days * _DAY_S if days else None)


def keep_reports(store: "Store", config: Config, *, now_s: float) -> None:
    """Store what pages show first, where it is a day old, has no decision or there is none."""
    for days in sorted({config.web.days, SAVINGS_DAYS}):
        found = find_report(store, days, now_s=now_s)
        if found and found[0].decisions and found[1] < _GOOD_S:
            continue
        report = collect(store, decided_within(days, now_s=now_s), config=config)
        packed = base64.b64encode(zlib.compress(msgspec.json.encode(report), 1)).decode()
        payload = f"{_made_with()}:{now_s:.0f}:{packed}"
        store.records.put(RecordRow(level=REPORTS, key=str(days), payload=payload))


def find_report(store: "Store", days: int, *, now_s: float) -> tuple[OutcomeReport, float] | None:
    """Give a stored report and its age in seconds; None: this release has left none."""
    payload = store.records.find(REPORTS, str(days)) or ""
    made_with, _, rest = payload.partition(":")
    made_s, _, packed = rest.partition(":")
    if made_with != _made_with():
        return None
    try:
        text = zlib.decompress(base64.b64decode(packed))
        return msgspec.json.decode(text, type=OutcomeReport), max(now_s - float(made_s), 0.0)
    except (ValueError, zlib.error, msgspec.MsgspecError):
        return None


def forget_reports(store: "Store", before_s: float) -> None:
    """Delete reports with decisions of before then, and those that another release has left.

    The next ``nimo fit`` makes them anew of what is still there.
    """
    gone = []
    for key, payload in store.records.of_level(REPORTS).items():
        made_with, _, rest = payload.partition(":")
        try:
            days, made_s = int(key), float(rest.partition(":")[0])
        except ValueError:
            days, made_s = 0, 0.0
        since_s = made_s - days * _DAY_S if days else 0.0
        if made_with != _made_with() or since_s < before_s:
            gone.append(key)
    store.records.delete(REPORTS, gone)


def _made_with() -> str:
    return f"{version('nimo-slurm')} {VERSION}"
