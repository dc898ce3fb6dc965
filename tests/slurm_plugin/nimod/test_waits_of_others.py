"""Whose waits nimod tells whom: what squeue would show them."""

import msgspec
import pytest

from slurm_plugin.protocol.lines import encode
from slurm_plugin.protocol.request_messages import Ask
from slurm_plugin.protocol.status_messages import Status, Waits
from slurm_plugin.slurm.snapshot import build as view
from tests.slurm_plugin.nimod.handler import Handler
from tests.slurm_plugin.wait_forecasts.test_forecasts import CONF, learned_queue
from tests.slurm_plugin.wait_forecasts.test_simulated_queue import NOW, pending

ROOT, ANN, BOB, NAMELESS = 0, 4001, 4002, 2**31 - 7


@pytest.fixture
def handler(tmp_path):
    made = Handler(tmp_path, names={ROOT: "root", ANN: "ann", BOB: "bob"})
    jobs = [pending(9, user="ann", tres={"cpu": 8.0}), pending(10, user="bob", tres={"cpu": 8.0})]
    state = learned_queue(*jobs)
    made.outlooks.add_wait_forecasts(view(state, CONF, cluster="pine", taken_s=NOW), state, CONF)
    return made


def waits(handler, uid, *job_ids):
    answer = handler.answer(encode(Ask(op="waits", job_ids=list(job_ids))), uid)
    return msgspec.json.decode(answer, type=Waits)


def asked(handler, uid, *job_ids):
    answer = waits(handler, uid, *job_ids)
    return [row.job_id for row in answer.rows], answer.missing


def test_private_data_hides_others_jobs(handler):
    handler.poller.private = True
    assert asked(handler, ANN) == ([9], [])
    assert asked(handler, ANN, 9, 10) == ([9], [10])
    # Root and slurmctld's own account see all.
    assert asked(handler, ROOT, 9, 10) == ([9, 10], [])


def queued(handler, uid):
    """How many jobs wait, as the status says."""
    reply = handler.respond(encode(Ask(op="status")), uid)
    return {one.waiting for one in msgspec.json.decode(reply.data, type=Status).waits}


def test_private_data_hides_how_many_jobs_wait(handler):
    handler.poller.private = True
    assert queued(handler, ANN) == {None}
    assert queued(handler, ROOT) == {2}
    handler.poller.private = False
    assert queued(handler, ANN) == {2}


def test_without_private_data_everybody_sees_what_squeue_shows(handler):
    handler.poller.private = False
    assert asked(handler, ANN, 9, 10) == ([9, 10], [])
    assert asked(handler, BOB) == ([10], [])


def test_a_user_without_a_name_gets_nothing(handler):
    answer = waits(handler, NAMELESS, 9)
    assert not answer.ok
    assert answer.rows == []
