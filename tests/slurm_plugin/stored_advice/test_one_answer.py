"""The same job gets the same count, limit, memory and chance, whoever answers: random stores."""

import shutil
from itertools import islice

import msgspec
import pytest

from predictor.stored_table import decode
from predictor.types import Verdict
from sacct_ingest.records import CURVE_LEVELS
from sacct_ingest.store import RecordRow, Store
from sacct_ingest.store.fits import NODES
from slurm_plugin.config.setting_types import TimeUse
from slurm_plugin.config.settings import Config, TimeLimit
from slurm_plugin.decision.service import DecisionService
from slurm_plugin.slurm.job_request import make_job
from slurm_plugin.slurm.known_nodes import known_nodes
from slurm_plugin.store_access import last_runs
from slurm_plugin.stored_advice.advise import advise_like, tables_like
from slurm_plugin.stored_advice.usual_job import usual_job
from slurm_plugin.text.streams import json_text
from tests.slurm_plugin import random_stores
from tests.slurm_plugin.made import NOW
from tests.slurm_plugin.stored_advice.test_announced import view
from tests.slurm_plugin.stored_advice.test_pasted_lines import asked

#: Of so many jobs one is asked about: sizes and limits both change from one to the next.
EVERY = 4


def answer(advice):
    """All that a user takes from an advice."""
    return {
        "count": advice.nodes,
        "size": advice.directive,
        "limit": advice.time_directive,
        "memory": advice.memory_directive,
        "sure": advice.verdict,
    }


def decoded(advice):
    return msgspec.json.decode(json_text(advice), type=type(advice))


@pytest.mark.parametrize("seed", random_stores.SEEDS)
def test_nimod_and_the_store_say_the_same(seed, of_all_workers, tmp_path):
    """Without nimod by what it left of the nodes in the store, or by what the runs show of them."""
    path = random_stores.filled(of_all_workers, seed)
    left = shutil.copy(path, tmp_path)
    config = Config(cluster="pine", time_limit=TimeLimit(use=TimeUse.SET))
    cluster, cases = view(random_stores.NODES), 0
    with Store.open(str(path)) as of_runs, Store.open(str(left)) as of_nimod:
        payload = msgspec.json.encode(known_nodes(cluster)).decode()
        of_nimod.records.put(RecordRow(level=NODES, key="pine", payload=payload))
        tables = [decode(row.payload) for row in of_runs.fits.all() if row.level in CURVE_LEVELS]
        for table in tables:
            if (usual := usual_job(table, last_runs(of_runs, table))) is None:
                continue
            service = DecisionService(config, new_id=str)
            service.tables, service.cluster = tables_like(of_runs, usual, config), cluster
            for case in islice(asked(usual), 0, None, EVERY):
                job = make_job(case.fields())
                by_nimod = service.advise(job, now_s=NOW)
                expected = answer(by_nimod)
                assert answer(decoded(by_nimod)) == expected
                # What a node deals out to a job runs alone do not show: whether other runs apply
                # to it is not known then.
                is_refused = by_nimod.verdict == Verdict.REFUSED
                for store in (of_nimod,) if is_refused else (of_runs, of_nimod):
                    assert answer(advise_like(store, case, config, now_s=NOW)) == expected, case
                    cases += 1
    assert cases > 100
