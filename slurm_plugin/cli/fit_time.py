"""How much of the time of a fit each user may take, and all together."""

import time
from collections.abc import Callable

from slurm_plugin.service.accountant import Account, Accountant, Kind, Principal, Resource


class FitTimeLimit:
    """Stops the later turns of who has taken too long, and those of all where a fit takes too long.

    accountant: has an account for each user, by name.
    clock: seconds, rising.
    """

    def __init__(self, accountant: Accountant, clock: Callable[[], float] = time.monotonic) -> None:
        self._accountant = accountant
        self._clock = clock
        self._at_s = clock()

    def took(self, user: str, seconds: float) -> None:
        """Take note of what one of a user's applications took, seconds of all workers."""
        if user:  # else it is of several
            self._of(user).charge(Resource.FIT_TIME, seconds)

    def may_go_on(self, user: str) -> bool:
        """Whether more of a user's applications may be fitted; what is refused is counted."""
        before_s = self._at_s
        self._at_s = self._clock()
        self._accountant.whole.charge(Resource.FIT_TIME, self._at_s - before_s)
        accounts = self._accountant.whole, self._of(user)
        return all(account.spend(Resource.FIT_TIME, 0.0) for account in accounts)

    def _of(self, user: str) -> Account:
        return self._accountant.of(Principal(Kind.USER, user))
