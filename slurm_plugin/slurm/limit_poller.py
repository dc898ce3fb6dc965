"""Reading limits of QOS and associations again and again, each source at its own pace."""

import logging
from collections.abc import Callable, Collection, Sequence

from sacct_ingest.errors import SlurmError
from slurm_plugin.slurm.assoc_mgr import ASSOC_MGR, ASSOC_TABLE, QOS_TABLE, read_limits
from slurm_plugin.slurm.limits import LimitTables

_log = logging.getLogger(__name__)

_USE_S = 60.0  #: what is used of limits: slurmctld's memory
_RULES_S = 600.0  #: what slurmctld does not show: a question to slurmdbd


class LimitPoller:
    """The limits of a cluster, as new as each of their sources is cheap.

    A source that does not answer is tried again at its next turn; until then the limits read
    before hold.

    clock: seconds since the epoch.
    run: runs a command and gives its text; raises SlurmError.
    """

    def __init__(self, clock: Callable[[], float], run: Callable[[Sequence[str]], str]) -> None:
        self._clock = clock
        self._run = run
        self._texts: dict[tuple[str, ...], tuple[float, str]] = {}
        self._tables = LimitTables()

    def look(self, cluster: str, enforced: Collection[str]) -> LimitTables:
        """Limits of a cluster that enforces what ``enforced`` says (AccountingStorageEnforce)."""
        if not {word.lower() for word in enforced} & {"limits", "safe", "all"}:
            return LimitTables()
        due = [self._ask(ASSOC_MGR, _USE_S)]
        due += [self._ask(argv, _RULES_S) for argv in (QOS_TABLE, ASSOC_TABLE)]
        if any(due):
            texts = [self._texts[argv][1] for argv in (ASSOC_MGR, QOS_TABLE, ASSOC_TABLE)]
            try:
                self._tables = read_limits(*texts, cluster=cluster, enforced=enforced)
            except SlurmError as error:
                _log.warning("%s; the limits read before stay in use", error)
        return self._tables

    def _ask(self, argv: tuple[str, ...], every_s: float) -> bool:
        """Ask again when it is time; return whether it was."""
        now_s = self._clock()
        asked_s, text = self._texts.get(argv, (-every_s, ""))
        if now_s - asked_s < every_s:
            return False
        try:
            text = self._run(argv)
        except SlurmError as error:
            _log.info("limits: %s", error)
        self._texts[argv] = now_s, text
        return True
