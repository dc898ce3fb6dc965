"""Whose waits nimod tells whom: what squeue would show them."""

import pytest

from slurm_plugin.config import Config
from slurm_plugin.nimod.daemon import Daemon
from slurm_plugin.protocol import Ask
from slurm_plugin.slurm.snapshot import build as view
from tests.slurm_plugin.nimod.test_outlooks import CONF, learned_queue
from tests.slurm_plugin.slurm.test_queue_view import NOW, pending

ANN, BOB = 4001, 4002


@pytest.fixture
def daemon(tmp_path):
    config = Config(store=f"sqlite:///{tmp_path}/nimo.db", socket=str(tmp_path / "nimod.sock"))
    made = Daemon(config, lambda: config)
    made._own_names.update({ANN: "ann", BOB: "bob"})
    jobs = [pending(9, user="ann", tres={"cpu": 8.0}), pending(10, user="bob", tres={"cpu": 8.0})]
    state = learned_queue(*jobs)
    made._outlooks.attach(view(state, CONF, cluster="pine", taken_s=NOW), state, CONF)
    return made


def asked(daemon, uid, *job_ids, trusted=False):
    answer = daemon._waits(Ask(op="waits", job_ids=list(job_ids)), uid, trusted=trusted)
    return [row.job_id for row in answer.rows], answer.missing


def test_private_data_hides_others_jobs(daemon):
    daemon._watch.private = True
    assert asked(daemon, ANN) == ([9], [])
    assert asked(daemon, ANN, 9, 10) == ([9], [10])
    # Root and slurmctld's own account see all.
    assert asked(daemon, 0, 9, 10, trusted=True) == ([9, 10], [])


def test_without_private_data_everybody_sees_what_squeue_shows(daemon):
    daemon._watch.private = False
    assert asked(daemon, ANN, 9, 10) == ([9, 10], [])
    assert asked(daemon, BOB) == ([10], [])


def test_a_user_without_a_name_gets_nothing(daemon):
    answer = daemon._waits(Ask(op="waits", job_ids=[9]), 2**31 - 7, trusted=False)
    assert not answer.ok
    assert answer.rows == []
