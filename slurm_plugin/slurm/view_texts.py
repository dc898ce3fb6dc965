"""Texts that users wrote into their jobs, as a view of the cluster has them.

Each is in memory once, in whatever job it stands, and of each user there are no more than the
accountant allows: of the jobs beyond that only the texts are left out, which tell applications
apart.
"""

import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from slurm_plugin.service.accountant import Account, Accountant, Kind, Principal, Resource
from slurm_plugin.slurm import fields

#: Fields of a job that users write, or make as long as they like.
_WRITTEN = (*(field.name for field in fields.JOB if field.by_user), "dependency")


class ViewTexts:
    """Gives jobs their texts, look after look.

    accountant: has an account for each user, by name.
    """

    def __init__(self, accountant: Accountant) -> None:
        self._accountant = accountant
        self._texts: dict[str, str] = {}
        self._before: dict[str, str] = {}
        self._held: dict[Account, int] = defaultdict(int)
        self._full: set[Account] = set()

    @contextmanager
    def look(self) -> Iterator[None]:
        """Take the texts of one look; those of the look before count no more."""
        for account, size in self._held.items():
            account.give_back(Resource.VIEW_BYTES, size)
        self._before = self._texts
        self._texts = {}
        self._held.clear()
        self._full.clear()
        try:
            yield
        finally:
            self._before = {}

    def of_job(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Give the fields of a job, with its texts as far as its user may have more of them."""
        account: Account | None = None
        job = dict(values)
        for name in _WRITTEN:
            text = job.get(name)
            if not text:
                continue
            known = self._texts.get(text)
            if known is None:
                if account is None:
                    account = self._accountant.of(Principal(Kind.USER, job.get("user", "")))
                known = self._taken(account, text)
            job[name] = known
        return job

    def _taken(self, account: Account, text: str) -> str:
        """Take a text for an account; empty where it has too many."""
        size = sys.getsizeof(text)
        # One refusal for each look: of a user's many jobs each would be another one.
        if account in self._full:
            return ""
        if not account.take(Resource.VIEW_BYTES, size):
            self._full.add(account)
            return ""
        self._held[account] += size
        known = self._before.get(text, text)
        self._texts[known] = known
        return known
