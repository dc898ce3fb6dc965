"""A request, the policy's rules, and a choice by them."""

import msgspec
from msgspec.structs import replace

from predictor.prediction_table import Tail
from slurm_plugin.config.setting_types import TimeUse
from slurm_plugin.decision.policy import decide
from slurm_plugin.decision.request import Request
from slurm_plugin.decision.situation import Situation
from tests.slurm_plugin.made import NOW, amdahl, partition, rules, table, thrifty

RULES = rules()
REQUEST = Request(low=1, high=16, limit_s=7200.0, with_least=True)


def policy(**fields):
    config = thrifty()
    changed = msgspec.structs.replace(config.policy, **fields)
    return rules(msgspec.structs.replace(config, policy=changed))


def choose(request=REQUEST, learned=None, part=None, by=RULES):
    return decide(Situation(request, learned or table(), (part or partition()).supply, by, NOW))


def tailed(time_of=None, **fields):
    """Run times of which 90 % stay below 1.1 times the median and 99 % below 1.2 times."""
    time_of = time_of or amdahl(100.0, 3600.0)
    nodes = range(1, 33)
    tails = [Tail(s, tuple(f * time_of(n) for n in nodes)) for s, f in ((0.9, 1.1), (0.99, 1.2))]
    return table(time_of, nodes=nodes, tails=tuple(tails), **fields)


def timed(use=TimeUse.SET, minutes=120, **fields):
    limit_s = 60.0 * minutes
    return replace(REQUEST, limit_s=limit_s, asked_limit_s=limit_s, time_use=use, **fields)


def due(seconds, **fields):
    return replace(REQUEST, deadline_s=NOW + seconds, **fields)
