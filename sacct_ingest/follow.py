"""Ingests for ever: one after the other, through outages of slurmdbd and of the database."""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from sacct_ingest.errors import SacctError, StoreError

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FollowSettings:
    """Seconds between ingests; after a failure ``first_retry_s``, doubled up to ``longest_s``."""

    every_s: float = 600.0
    first_retry_s: float = 30.0
    longest_s: float = 3600.0


def follow(
    once: Callable[[], object],
    settings: FollowSettings,
    *,
    pause: Callable[[float], object],
    rounds: int | None = None,
) -> None:
    """Call ``once`` again and again; errors of slurmdbd and the database are logged and outlived.

    Parameters
    ----------
    once
        One ingest.
    pause
        Waits for some seconds.
    rounds
        Calls after which to return; None: never.
    """
    retry_s = settings.first_retry_s
    while rounds is None or (rounds := rounds - 1) >= 0:
        try:
            once()
            retry_s, delay_s = settings.first_retry_s, settings.every_s
        except (SacctError, StoreError) as error:
            _log.error("%s; next attempt in %.0f s", error, retry_s)
            delay_s, retry_s = retry_s, min(2 * retry_s, settings.longest_s)
        pause(delay_s)
