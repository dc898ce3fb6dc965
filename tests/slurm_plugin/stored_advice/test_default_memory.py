"""The usual job asks for memory where its runs did: not for what Slurm gives by default."""

import shutil

import msgspec
import pytest
from msgspec.structs import replace

from predictor.stored_table import decode
from sacct_ingest.records import CURVE_LEVELS
from sacct_ingest.store import RecordRow, Store
from sacct_ingest.store.fits import NODES
from slurm_plugin.config.settings import Config
from slurm_plugin.slurm.known_nodes import known_nodes
from slurm_plugin.store_access import last_runs
from slurm_plugin.stored_advice.advise import advise_usual
from slurm_plugin.stored_advice.usual_job import usual_job, without_default_memory
from tests.slurm_plugin import random_stores
from tests.slurm_plugin.made import NOW
from tests.slurm_plugin.stored_advice.test_announced import view


def with_default(**rules):
    """A cluster whose one partition gives this memory to jobs that ask for none."""
    cluster = view(random_stores.NODES)
    part = replace(cluster.partitions["batch"], **rules)
    return replace(cluster, partitions={"batch": part})


def test_memory_that_slurm_gives_by_default_is_not_said_to_be_asked_for(jobs):
    cases = 0
    for _, usual, _ in jobs:
        asked = usual._replace(options={**usual.options, "partition": "batch", "mem": "300M"})
        without = {name: value for name, value in asked.options.items() if name != "mem"}
        given = without_default_memory(asked, with_default(mem_node_mib=300)).options
        assert given == without
        for rules in ({"mem_node_mib": 200}, {"mem_cpu_mib": 1000}, {}):
            assert without_default_memory(asked, with_default(**rules)) == asked
        cases += 1
    assert cases


def test_the_default_for_each_cpu_counts_by_the_cpus_of_the_job(jobs):
    _, usual, _ = jobs[0]
    options = {"nodes": "2", "ntasks-per-node": "3", "partition": "batch", "mem": "300M"}
    asked = usual._replace(options=options)
    assert "mem" not in without_default_memory(asked, with_default(mem_cpu_mib=100)).options
    assert without_default_memory(asked, with_default(mem_cpu_mib=50)) == asked


def test_where_there_is_no_default_slurm_gives_all_memory_of_a_node(jobs):
    _, usual, _ = jobs[0]
    asked = usual._replace(options={"nodes": "2", "partition": "batch", "mem": "4096M"})
    assert "mem" not in without_default_memory(asked, with_default(node_mem_bytes=2**32)).options
    assert without_default_memory(asked, with_default(node_mem_bytes=2**33)) == asked


@pytest.mark.parametrize("seed", random_stores.SEEDS[:1])
def test_pages_leave_it_out(seed, of_all_workers, tmp_path):
    path = random_stores.filled(of_all_workers, seed)
    config, cases = Config(cluster="pine"), 0
    with Store.open(str(shutil.copy(path, tmp_path))) as store:
        for row in [row for row in store.fits.all() if row.level in CURVE_LEVELS]:
            table = decode(row.payload)
            usual = usual_job(table, last_runs(store, table))
            if usual is None or "mem" not in usual.options:
                continue
            default_mib = int(usual.options["mem"].removesuffix("M"))
            nodes = known_nodes(with_default(mem_node_mib=default_mib))
            payload = msgspec.json.encode(nodes).decode()
            store.records.put(RecordRow(level=NODES, key="pine", payload=payload))
            shown, _ = advise_usual(store, table, config, now_s=NOW)
            assert "mem" not in shown.options
            cases += 1
    assert cases
