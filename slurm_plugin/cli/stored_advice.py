"""Advice without nimod: the same advisor, with what the store knows about this one job."""

from sacct_ingest.records import Identity, KeyLevel
from sacct_ingest.signature import identity_of_request
from slurm_plugin.advisor import Advisor
from slurm_plugin.cli.stores import open_store
from slurm_plugin.config import Config
from slurm_plugin.protocol import Advice, Job
from slurm_plugin.tables import Tables


def advise(job: Job, config: Config, *, now_s: float) -> Advice:
    """Advise on a job from the configured store; the queue is not known there.

    Raises
    ------
    StoreError
        There is no store, or it cannot be read.
    """
    identity = identity_of_request(
        user=job.user_name,
        name=job.name,
        comment=job.comment,
        script=job.script,
        argv=job.argv,
    )
    advisor = Advisor(config, new_id=str)
    advisor.tables = _tables(config, identity)
    return advisor.advise(job, now_s=now_s)


def _tables(config: Config, identity: Identity) -> Tables:
    keys = [(level, key) for level in KeyLevel if (key := identity.key(level))]
    with open_store(config) as store:
        return Tables((row.level, row.key, row.payload) for row in store.fits.find(keys))
