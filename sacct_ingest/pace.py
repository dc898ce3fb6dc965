"""How much of the accounting is asked for at a time, and how long it is left alone in between."""

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic, sleep

#: Windows get no smaller than this.
NARROWEST_S = 600


@dataclass(frozen=True, slots=True)
class PaceSettings:
    """What slurmdbd may be burdened with.

    Windows are ``window_s`` wide as long as they are answered within ``slow_s``, and smaller
    while they are not.  Of the time that several windows take, slurmdbd works for us for
    ``share`` at most.
    """

    window_s: float = 86_400
    slow_s: float = 20.0
    share: float = 0.25


class Pace:
    """The pace of one ingest: it narrows and slows down while the accounting is slow.

    Parameters
    ----------
    settings
        What is allowed.
    clock, pause
        Time in seconds, and what waits: arguments, so that tests need not wait.

    Examples
    --------
    >>> pace = Pace(PaceSettings(window_s=86_400, slow_s=20), clock=lambda: 0.0)
    >>> pace.answered(waited_s=50)
    >>> pace.width_s
    43200
    """

    def __init__(
        self,
        settings: PaceSettings | None = None,
        *,
        clock: Callable[[], float] = monotonic,
        pause: Callable[[float], object] = sleep,
    ) -> None:
        self._settings = settings or PaceSettings()
        self._clock, self._pause = clock, pause
        self._asked_at_s = clock()
        self.width_s = max(1, round(self._settings.window_s))

    def ask(self) -> None:
        """Note that the accounting is asked now."""
        self._asked_at_s = self._clock()

    def answered(self, waited_s: float) -> None:
        """Choose the width of the next window by how long this one was waited for."""
        if waited_s > self._settings.slow_s:
            self.narrow()
        elif waited_s < self._settings.slow_s / 4:
            self.width_s = min(max(1, round(self._settings.window_s)), 2 * self.width_s)

    def narrow(self) -> bool:
        """Halve the windows; False where they are as small as they get."""
        narrowest = min(NARROWEST_S, self.width_s)
        before, self.width_s = self.width_s, max(narrowest, self.width_s // 2)
        return self.width_s < before

    def rest(self, waited_s: float) -> None:
        """Pause until the time waited is no more than the share of the time since `ask`."""
        rest_s = waited_s / self._settings.share - (self._clock() - self._asked_at_s)
        if rest_s > 0:
            self._pause(rest_s)
