"""A service with tables and a cluster, and a submission to it."""

import itertools

from slurm_plugin.config.setting_types import Mode
from slurm_plugin.decision.service import DecisionService
from tests.slurm_plugin.made import NOW, cluster, job, stored, table, thrifty


def advisor(config=None, *, tables=(), look=None, **settings):
    ids = itertools.count(1)
    made = DecisionService(
        config or thrifty(**{"mode": Mode.ENFORCE, **settings}), new_id=lambda: f"{next(ids):012x}"
    )
    made.tables = stored(*(tables or [table()]))
    made.cluster = look or cluster()
    return made


def submit(made, request=None, now_s=NOW):
    return made.submit(request or job(), via="job_submit", now_s=now_s)
