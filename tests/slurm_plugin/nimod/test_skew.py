"""nimod and the commands against messages of other releases."""

import copy
import json
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import pytest

from slurm_plugin.protocol.advice_messages import read_advice
from slurm_plugin.protocol.decision_messages import Answer, Change
from slurm_plugin.protocol.status_messages import Status
from tests.messages import RELEASES, Message, recorded, with_news
from tests.slurm_plugin.nimod.own_nimod import talk

READERS: dict[str, Callable[[Message], Any]] = {
    "decide": partial(msgspec.convert, type=Answer),
    "keep": partial(msgspec.convert, type=Answer),
    "prepare": partial(msgspec.convert, type=Answer),
    "advise": read_advice,
    "status": partial(msgspec.convert, type=Status),
    "reload": partial(msgspec.convert, type=Status),
}


def test_nimod_answers_what_other_releases_ask(running):
    asks = [ask for path in RELEASES for ask in recorded(path)["asks"]]
    asks += with_news(copy.deepcopy(asks))
    lines = "".join(f"{json.dumps(ask)}\n" for ask in asks)
    answers = talk(running.socket, lines.encode(), len(asks))
    refused = [(ask, answer) for ask, answer in zip(asks, answers, strict=True) if wrong(answer)]
    assert refused == []
    assert [answer["v"] for answer in answers] == [ask["v"] for ask in asks]


def wrong(answer: Message) -> bool:
    return not answer.get("ok", True) or answer.get("error", "") != ""


@pytest.mark.parametrize("path", RELEASES, ids=lambda path: path.stem)
def test_commands_read_what_nimod_of_other_releases_answers(path):
    for asked, answer in recorded(path)["answers"].items():
        for reported in (answer, with_news(answer)):
            assert READERS[asked](reported).ok
    set_by = recorded(path)["answers"]["decide"]["set"]
    assert msgspec.convert(set_by, Change).min_nodes == 4
