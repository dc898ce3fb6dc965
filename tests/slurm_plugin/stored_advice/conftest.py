"""Jobs of made-up stores that advice is asked about."""

import pytest

from predictor.stored_table import decode
from sacct_ingest.records import CURVE_LEVELS
from sacct_ingest.store import Store
from slurm_plugin.config.setting_types import TimeUse
from slurm_plugin.config.settings import Config, TimeLimit
from slurm_plugin.store_access import last_runs
from slurm_plugin.stored_advice.advise import advise_like
from slurm_plugin.stored_advice.usual_job import usual_job
from tests.slurm_plugin import random_stores
from tests.slurm_plugin.made import NOW


@pytest.fixture(scope="module", params=random_stores.SEEDS)
def jobs(request, of_all_workers):
    """The usual job of each application, with what advises on others like it."""
    path = random_stores.filled(of_all_workers, request.param)
    config = Config(
        cluster="pine", store=f"sqlite:///{path}", time_limit=TimeLimit(use=TimeUse.SET)
    )
    with Store.open(config.store_url) as store:
        tables = [decode(row.payload) for row in store.fits.all() if row.level in CURVE_LEVELS]
        usual = [(table, usual_job(table, last_runs(store, table))) for table in tables]

        def advise(one):
            return advise_like(store, one, config, now_s=NOW)

        yield [(table, one, advise) for table, one in usual if one]
