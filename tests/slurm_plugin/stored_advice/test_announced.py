"""What sbatch will do with a job is what advice says: on its count, or on one that it announces."""

import itertools
import re
from math import ceil

import pytest
from msgspec.structs import replace

from predictor.stored_table import decode
from sacct_ingest.records import CURVE_LEVELS
from sacct_ingest.runs.layout import Unit
from sacct_ingest.store import Store
from sacct_ingest.text.durations import duration_text
from sacct_ingest.text.slurm_text import parse_time_limit
from slurm_plugin.config.setting_types import Mode, TimeUse
from slurm_plugin.config.settings import Config, TimeLimit
from slurm_plugin.decision.service import DecisionService
from slurm_plugin.protocol.query_messages import Explanation
from slurm_plugin.protocol.request_messages import HookLevel
from slurm_plugin.reports.why_text import explain
from slurm_plugin.slurm.cluster_state import Cluster, Partition
from slurm_plugin.slurm.job_request import make_job
from slurm_plugin.slurm.node_pool import NodeGroup, NodePool, profile
from slurm_plugin.store_access import last_runs
from slurm_plugin.stored_advice.advise import tables_like
from slurm_plugin.stored_advice.usual_job import usual_job
from tests.slurm_plugin import random_stores
from tests.slurm_plugin.made import NOW, with_tails
from tests.slurm_plugin.random_stores import CPUS, GPUS, NODES

RANGES = {
    Unit.NODES: [{"nodes": size} for size in ("1-8", "2-8", "1-4", "4")],
    Unit.CPUS: [{"comment": "nimo:tasks=1-16"}, {"comment": "nimo:cpus=1-16"}],
    Unit.GPUS: [{"comment": "nimo:gpus=1-2"}],
}

#: Memory of advice is a multiple of so many MiB.
ROUNDED_MIB = 100
DAY_MIN = 1440


def view(free):
    """The cluster of the histories, with so many nodes free, and the others in an hour."""

    def group(at_s):
        gres = (("gpu", GPUS),)
        return NodeGroup(
            cpus=CPUS,
            mem_mib=128_000,
            gres=gres,
            steps=((at_s, CPUS, 128_000, gres),),
            empty_s=at_s,
        )

    names = [f"n{i}" for i in range(1, NODES + 1)]
    groups = {group(NOW): tuple(names[:free]), group(NOW + 3600): tuple(names[free:])}
    part = Partition(
        name="batch",
        nodes=NODES,
        profile=profile([(NOW, free), (NOW + 3600, NODES)]),
        node_cpus=CPUS,
        node_mem_bytes=128_000 << 20,
        max_time_s=10 * 86_400.0,
        pool=NodePool(now_s=NOW, groups={one: few for one, few in groups.items() if few}),
    )
    return Cluster(
        name="pine",
        taken_s=NOW,
        partitions={"batch": part},
        default_partition="batch",
        keeps_limit=True,
    )


def submitted(path, mode, learn, **more):
    """Each job with the advice on it, and the answer and record of its submission.

    more: options that it asks for in place of those of its runs.
    """
    config = Config(
        cluster="pine", store=f"sqlite:///{path}", mode=mode, time_limit=TimeLimit(use=TimeUse.SET)
    )
    with Store.open(config.store_url) as store:
        tables = [decode(row.payload) for row in store.fits.all() if row.level in CURVE_LEVELS]
        usual = [(table, usual_job(table, last_runs(store, table))) for table in tables]
        for (table, one), free in itertools.product(usual, (NODES, NODES // 2)):
            for size in RANGES[table.unit] if one else ():
                options = {**one.options, **size, **more}
                if not learn:
                    options["comment"] = f"{options.get('comment', 'nimo:')},learn=off"
                    options["comment"] = options["comment"].replace(":,", ":")
                job = make_job(one._replace(options=options).fields())
                job = replace(job, hook=HookLevel.COMMANDS, min_cpus=1)
                ids = itertools.count(1)
                service = DecisionService(config, new_id=lambda ids=ids: f"{next(ids):012x}")
                service.tables = tables_like(store, one, config)
                service.cluster = view(free)
                advice = service.advise(job, now_s=NOW)
                answer, row = service.submit(job, via="job_submit", now_s=NOW)
                again = service.advise(job, now_s=NOW)
                yield job, advice, answer, row, again


@pytest.mark.parametrize("learn", [True, False])
@pytest.mark.parametrize("seed", random_stores.SEEDS)
def test_the_next_sbatch_does_what_advice_says(seed, learn, of_all_workers):
    path = random_stores.filled(of_all_workers, seed)
    decided, tried = 0, 0
    for job, advice, answer, row, again in submitted(path, Mode.ENFORCE, learn):
        if row.action != "set" or not row.applied:
            assert advice.submit_text == "", job
            continue
        decided += 1
        learning = answer.reason == "learning"
        tried += learning
        announced = f" {row.nodes} " in advice.submit_text and "sbatch" in advice.submit_text
        assert announced if row.nodes != advice.nodes else advice.submit_text == "", (job, advice)
        if learning:
            assert "nimo:learn=off" in advice.submit_text or row.nodes == advice.nodes
            # One at a time.
            assert "learn" not in again.submit_text
    assert decided > 10
    assert (tried > 5) is learn


def test_who_only_advises_announces_nothing(of_all_workers):
    path = random_stores.filled(of_all_workers, 0)
    made = list(submitted(path, Mode.ADVISE, learn=True))
    assert made
    assert {advice.submit_text for _, advice, *_ in made} == {""}


def limit_of(advice):
    found = re.search(r"--time=(\S+)", advice.time_directive)
    return parse_time_limit(found[1]) // 60 if found else None


@pytest.mark.parametrize(("minutes", "tails"), [(DAY_MIN, (1.2, 2.0)), (240, (3.0, 6.0))])
def test_limits_of_tables_with_tails_are_those_of_advice(minutes, tails, of_all_workers, tmp_path):
    """As many as runs enough would support, on counts that stay and on others."""
    floor = ceil(TimeLimit().least_share * minutes)
    kept, changed = 0, 0
    for seed in random_stores.SEEDS:
        path = random_stores.filled(of_all_workers, seed)
        path = random_stores.changed(path, tmp_path, with_tails(*tails))
        for job, advice, answer, row, _ in submitted(
            path, Mode.ENFORCE, learn=False, time=str(minutes)
        ):
            if answer.set is None or row.nodes != advice.nodes or answer.set.time_limit is None:
                continue
            assert answer.set.time_limit == max(limit_of(advice), floor), job
            kept += row.action == "keep"
            changed += row.action == "set"
    assert kept > 3
    assert changed > 3


def test_what_sbatch_sets_and_nimo_why_says_is_the_advice(tmp_path_factory):
    """Count and limit, and no less memory, which sbatch takes off step by step.

    A limit that is set keeps a share of the one that the job asks for.
    """
    counts, limits = 0, 0
    for seed in random_stores.SEEDS:
        path = random_stores.filled(tmp_path_factory.getbasetemp(), seed)
        made = submitted(path, Mode.ENFORCE, learn=False, time=str(DAY_MIN))
        for job, advice, answer, row, _ in made:
            if answer.set is None or row.nodes != advice.nodes:
                continue
            why = explain(Explanation(decision=row), 4711)
            if row.action == "set":
                assert f"NIMO chose {advice.unit.counted(advice.nodes)}:" in why, job
                counts += 1
            if (limit := answer.set.time_limit) is not None:
                floor = ceil(TimeLimit().least_share * DAY_MIN)
                assert limit == max(limit_of(advice), floor), job
                assert f"a time limit of {duration_text(60.0 * limit)}" in why
                limits += 1
            if (given := answer.set.min_mem_per_node) is not None:
                advised = re.search(r"\d+", advice.memory_directive)
                assert not advised or given > int(advised[0]) - ROUNDED_MIB
                assert f"--mem={given}M" in why
    assert counts > 40
    assert limits > 3
