"""Who pastes the lines of an advice and asks again is told to change nothing: over random stores.

Sizes, ranges and limits of all kinds, without a view of the cluster, on an idle one and on one of
which half the nodes are taken.
"""

import itertools

import pytest

from predictor.stored_table import decode
from sacct_ingest.records import CURVE_LEVELS
from sacct_ingest.store import Store
from slurm_plugin.config.setting_types import TimeUse
from slurm_plugin.config.settings import Config, TimeLimit
from slurm_plugin.decision.service import DecisionService
from slurm_plugin.reports.advice_text import options_of
from slurm_plugin.slurm.job_request import make_job
from slurm_plugin.store_access import last_runs
from slurm_plugin.stored_advice.advise import tables_like
from slurm_plugin.stored_advice.usual_job import usual_job
from tests.slurm_plugin import random_stores
from tests.slurm_plugin.made import NOW
from tests.slurm_plugin.stored_advice.test_announced import view

#: Options that say how much a job asks for, with the sizes that it is asked for with.
SIZES = {
    "nodes": ("1", "2", "6", "1-8", "2-4"),
    "cpus-per-task": ("1", "3", "16"),
    "ntasks": ("1", "8", "16"),
    "gpus-per-node": ("1", "2"),
}
MINUTES = (None, 60, 10_080)


def asked(usual):
    """The usual job with each other size and limit in place of its own."""
    sizes = [usual.options]
    for option, others in SIZES.items():
        if usual.options.get(option, "0") != "0":
            sizes += [usual.options | {option: size} for size in others]
    for size, minutes in itertools.product(sizes, MINUTES):
        options = {name: value for name, value in size.items() if name != "time"}
        yield usual._replace(options=options | ({"time": str(minutes)} if minutes else {}))


def lines_of(advice):
    words = (word.removeprefix("--").partition("=") for word in options_of(advice).split())
    return {name: value for name, _, value in words}


def advisors(seed, folder, free):
    """The usual job of each application of a store, with what advises on jobs like it."""
    path = random_stores.filled(folder, seed)
    config = Config(
        cluster="pine", store=f"sqlite:///{path}", time_limit=TimeLimit(use=TimeUse.SET)
    )
    with Store.open(config.store_url) as store:
        for table in [decode(row.payload) for row in store.fits.all() if row.level in CURVE_LEVELS]:
            if (usual := usual_job(table, last_runs(store, table))) is None:
                continue
            service = DecisionService(config, new_id=str)
            service.tables = tables_like(store, usual, config)
            if free:
                service.cluster = view(free)
            yield usual, service


def is_in(range_, nodes):
    low, _, high = range_.partition("-")
    return int(low) <= nodes <= int(high or low)


@pytest.mark.parametrize("free", [0, random_stores.NODES, random_stores.NODES // 2])
@pytest.mark.parametrize("seed", random_stores.SEEDS)
def test_who_pastes_the_lines_is_told_to_change_nothing(seed, free, of_all_workers):
    pasted = 0
    for usual, service in advisors(seed, of_all_workers, free):

        def advise(options, usual=usual, service=service):
            job = make_job(usual._replace(options=options).fields())
            if free:
                return service.advise(job, now_s=NOW)
            return service.advise_at(job, [], now_s=NOW)

        for job in asked(usual):
            advice = advise(job.options)
            options = job.options | lines_of(advice)
            if options == job.options:
                continue
            again = advise(options)
            moved = {k: v for k, v in lines_of(again).items() if options.get(k) != v}
            range_ = job.options.get("nodes", "")
            if "-" in range_:
                # Its user's bounds are not those of the count; of a limit that cut all runs off
                # no count follows.
                bound = again.nodes is not None and not is_in(range_, again.nodes)
                moved = {} if bound or advice.nodes is None else moved
            assert not moved, (job.options, options)
            pasted += 1
    assert pasted > 100
