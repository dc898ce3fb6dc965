"""Without nimod advice names no count that runs do not show the cluster to have."""

import re

import pytest

from predictor.stored_table import decode
from sacct_ingest.records import CURVE_LEVELS
from sacct_ingest.runs.layout import Unit
from sacct_ingest.store import Store
from slurm_plugin.config.settings import Config
from slurm_plugin.store_access import last_runs
from slurm_plugin.stored_advice.advise import advise_like
from slurm_plugin.stored_advice.usual_job import usual_job
from tests.slurm_plugin import random_stores
from tests.slurm_plugin.made import NOW

MOST = {
    Unit.NODES: random_stores.NODES,
    Unit.CPUS: random_stores.CPUS,
    Unit.GPUS: random_stores.GPUS,
}
#: Other sizes to ask for.
ASKED = {
    Unit.NODES: [{"nodes": size} for size in ("1-64", "2-64", "4-8", "8", "1")],
    Unit.CPUS: [{}],
    Unit.GPUS: [{}, {"gpus-per-node": "1"}, {"gpus-per-node": "2"}],
}


@pytest.mark.parametrize("seed", random_stores.SEEDS)
def test_no_count_is_named_that_the_cluster_lacks(seed, of_all_workers):
    path = random_stores.filled(of_all_workers, seed)
    config = Config(cluster="pine", store=f"sqlite:///{path}")
    asked = 0
    with Store.open(config.store_url) as store:
        tables = [decode(row.payload) for row in store.fits.all() if row.level in CURVE_LEVELS]
        for table in tables:
            if (usual := usual_job(table, last_runs(store, table))) is None:
                continue
            for size in ASKED[table.unit]:
                job = usual._replace(options=usual.options | size)
                advice = advise_like(store, job, config, now_s=NOW)
                said = " ".join(advice.problems) if table.unit is Unit.NODES else ""
                counts = [row.nodes for row in advice.rows] + [advice.nodes, advice.observe]
                counts += [int(n) for n in re.findall(r"(\d+) nodes", said)]
                assert max(filter(None, counts), default=0) <= MOST[table.unit], (job, advice)
                # How many CPUs and GPUs others find free nothing says without a view.
                assert table.unit is Unit.NODES or "keeps them free" not in advice.reason
                asked += 1
    assert asked > 20
