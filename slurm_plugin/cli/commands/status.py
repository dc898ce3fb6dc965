"""``nimo status``: show the state of nimod."""

import argparse
import time
from collections.abc import Callable, Sequence
from itertools import accumulate
from textwrap import fill
from typing import TYPE_CHECKING

from sacct_ingest.text.durations import duration_range, duration_text
from slurm_plugin.cli.command_context import nimod_socket, user_settings
from slurm_plugin.cli.through_nimod import nimod_or_store
from slurm_plugin.config.settings_file import leaves_out
from slurm_plugin.nimod import client
from slurm_plugin.protocol.status_messages import Counts, PartitionWait, Refused, Status
from slurm_plugin.text.formatting import clock, count, percent
from slurm_plugin.text.streams import json_text
from slurm_plugin.text.terminal_size import terminal_width

if TYPE_CHECKING:
    from slurm_plugin.config.settings import Config

_TIMEOUT_S = 2.0
_INDENT = " " * 11  #: below the texts of `describe`


def run(args: argparse.Namespace) -> int:
    """Ask and print."""
    settings = user_settings(args)
    socket = nimod_socket(args, settings)
    status = nimod_or_store(
        settings, lambda: client.status(socket, reload=args.reload, timeout_s=_TIMEOUT_S)
    )
    if args.json:
        print(json_text(status))
    else:
        text = describe(status, now_s=time.time(), max_age_s=_max_age_s(args, settings))
        width = terminal_width()
        print("\n".join(fill(line, width, subsequent_indent=_INDENT) for line in text.splitlines()))
    return 0


def _max_age_s(args: argparse.Namespace, settings: "Callable[[], Config]") -> float:
    """Age of a view that is believed; to load a reader of YAML takes as long as to start Python."""
    from slurm_plugin.config.settings import Snapshot  # noqa: PLC0415 - not for JSON

    snapshot = Snapshot() if leaves_out("snapshot", args.config) else settings().snapshot
    return snapshot.max_age_s


def describe(status: Status, *, now_s: float, max_age_s: float) -> str:
    """Put nimod's state into words; ``max_age_s`` is how old its view may be to be believed."""
    tables = "none yet"
    if status.loaded_s is not None:
        tables = f"{status.identities}, loaded {clock(min(status.loaded_s, now_s))}"
    if status.outdated:
        tables += f"; {status.outdated} of another release wait for 'nimo fit' and are not used"
    return "\n".join(
        (
            f"release    {status.release}",
            f"tables     {tables}",
            f"cluster    {_view(status.snapshot_age_s, max_age_s)}",
            f"requests   {status.answered} answered, {status.failed} failed",
            *([f"refused    {_refused(status.refused)}"] if status.refused else ()),
            f"answers    {_answers(status.counts)}",
            f"longest    {1e3 * status.longest_s:.1f} ms of processor time between two requests",
            f"store      {_store(status)}",
            *([f"relays     {', '.join(status.relays)}"] if status.relays else ()),
            *(f"wait       {_wait(one)}" for one in status.waits),
            f"estimates  {_estimates(status)}",
        )
    )


def _refused(refused: Sequence[Refused]) -> str:
    """Say which limits were reached since nimod began; its log names who reached them."""
    texts = (
        f"{one.resource.replace('_', ' ')} of a {one.principal} {one.count} times"
        for one in refused
    )
    return "; ".join(texts)


def _wait(one: PartitionWait) -> str:
    wait = (
        f"{one.partition}, {count(one.nodes, 'node')} for {duration_text(one.limit_s)}: "
        f"{duration_text(one.wait_s)} ({duration_range(one.low_s, one.high_s)})"
    )
    return wait if one.waiting is None else f"{wait}, {count(one.waiting, 'job')} in the queue"


def _estimates(status: Status) -> str:
    if not status.waits_recorded:
        return "no job start recorded yet, so intervals are wide"
    starts = f"{count(status.waits_recorded, 'start')} recorded"
    if status.waits_inside is None:
        return starts
    return f"{starts}, {percent(status.waits_inside)} inside the 90 % interval"


def _store(status: Status) -> str:
    waiting = f"{count(status.decisions_pending, 'decision')} not written yet"
    if status.store_trouble:
        return f"{waiting}: {status.store_trouble}"
    if status.store_changed_s is not None:
        return (
            f"{waiting}; another store has been in its place since {clock(status.store_changed_s)}"
        )
    return waiting


def _view(age_s: float | None, max_age_s: float) -> str:
    if age_s is None:
        return "not read yet: jobs pass unchanged"
    old = ": too old, jobs pass unchanged" if age_s > max_age_s else ""
    return f"read {duration_text(age_s)} ago{old}"


def _answers(counts: Counts) -> str:
    """Give the times within which submissions were answered, from the counts."""
    total = sum(counts.bins)
    if not total:
        return "none to submissions yet"
    half = _within(counts, 0.5 * total, "half", "over half")
    most = _within(counts, 0.99 * total, "99 %", "over 1 %")
    return f"to {count(total, 'submission')}: {half}, {most}"


def _within(counts: Counts, number: float, share: str, others: str) -> str:
    """Say within what time a share of answers came, or that the others took longer than counted."""
    for bound_s, so_far in zip(counts.bounds_s, accumulate(counts.bins), strict=False):
        if so_far >= number:
            return f"{share} within {bound_s * 1000:g} ms"
    return f"{others} took more than {counts.bounds_s[-1] * 1000:g} ms"
