"""What a relay takes of one user at the same time."""

import json
from types import SimpleNamespace

from slurm_plugin.config.settings import Config
from slurm_plugin.nimod.relay.relay import Relay
from slurm_plugin.protocol.lines import encode
from slurm_plugin.protocol.request_messages import Ask


def test_a_user_has_few_long_answers_at_a_time():
    relay = Relay(Config(), uplink=SimpleNamespace(ask=print))
    line = encode(Ask(op="report"))
    replies = [relay.respond(line, 7) for _ in range(5)]
    assert [reply.query is not None for reply in replies] == [True] * 4 + [False]
    assert "too many questions wait" in json.loads(replies[-1].data)["error"]
    assert relay.respond(line, 8).query is not None
    replies[0].taken()
    assert relay.respond(line, 7).query is not None
