"""Fair-share as far as a history shows it: the recent use of users and accounts, halved each week.

Slurm's priority/multifactor gives more priority to those who used less of late.  Its classic
factor is ``2 ** -(use / share)``: the share of all use over the share that is granted (*Classic
Fairshare Algorithm*, slurm.schedmd.com/classic_fair_share.html).  A history does not have the
granted shares: they count as even.

Loaded by nimod, so nothing but the standard library and msgspec.
"""

from collections.abc import Mapping
from statistics import median

import msgspec

from predictor.checks import need_finite, need_positive

#: As ``PriorityDecayHalfLife`` is, where slurm.conf has none.
_HALF_LIFE_S = 7 * 86_400.0


class RecentUse:
    """Use by name, halved at a pace; times come in any order, and never fall far behind.

    half_life_s: time after which use counts by half.
    """

    def __init__(self, half_life_s: float = _HALF_LIFE_S) -> None:
        need_positive("half-life of use", half_life_s)
        self._half_life_s = half_life_s
        self._use: dict[str, tuple[float, float]] = {}
        self._all = (0.0, 0.0)

    def add(self, name: str, amount: float, at_s: float) -> None:
        """Count an amount that was used by a moment, in any unit.

        Raises ValueError: the amount is below zero, or a number is not finite.
        """
        need_finite("amount that was used", amount, least=0)
        need_finite("moment of use", at_s)
        self._use[name] = (self._at(self._use.get(name, (0.0, at_s)), at_s) + amount, at_s)
        self._all = (self._at(self._all, at_s) + amount, at_s)

    def factor(self, name: str, at_s: float) -> float:
        """Fair-share factor: from 1, for who used nothing, down to 0.

        >>> use = RecentUse()
        >>> use.add("ann", 3.0, 0.0)
        >>> use.add("bob", 1.0, 0.0)
        >>> use.factor("bob", 0.0) > use.factor("ann", 0.0)
        True
        """
        need_finite("moment of asking", at_s)
        every = self._at(self._all, at_s)
        if every <= 0 or name not in self._use:
            return 1.0
        return float(2.0 ** -(self._at(self._use[name], at_s) / every * len(self._use)))

    def factors(self, at_s: float) -> dict[str, float]:
        """Fair-share factors of all who used anything."""
        return {name: self.factor(name, at_s) for name in self._use}

    def _at(self, use: tuple[float, float], at_s: float) -> float:
        amount, since_s = use
        return float(amount * 2.0 ** -(max(at_s - since_s, 0.0) / self._half_life_s))


class FairShares(msgspec.Struct, frozen=True, kw_only=True):
    """Fair-share factors at the time of a refit, of users and of accounts."""

    users: Mapping[str, float] = {}
    accounts: Mapping[str, float] = {}

    def of(self, user: str, account: str) -> tuple[float, float]:
        """Give the factors of a user and of an account; an account without a name is typical."""
        theirs = self.accounts.get(account, 1.0) if account else _middle(self.accounts)
        return self.users.get(user, 1.0), theirs

    def typical(self) -> tuple[float, float]:
        """Give the factors that half of the users, and half of the accounts, exceed."""
        return _middle(self.users), _middle(self.accounts)


def _middle(factors: Mapping[str, float]) -> float:
    return median(factors.values()) if factors else 1.0
