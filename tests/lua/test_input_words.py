"""Which words of a submission may name files that its job reads: as nimo-advise has it."""

import json
from pathlib import Path

import pytest

from tests.lua.test_json import lua_value

CASES = json.loads((Path(__file__).parents[1] / "data/input-words.json").read_text())


@pytest.mark.parametrize("case", CASES, ids=[case["says"] for case in CASES])
def test_words_that_may_be_files(hooks, case):
    words = hooks.lua.eval(f"dofile('{hooks.folder}/nimo_words.lua')")
    found = words(
        lua_value(hooks, case["arguments"]),
        lua_value(hooks, case["script"]),
        case["work_dir"],
        case["standard_input"],
        case["variables"].get,
    )
    assert list(found.values()) == case["paths"]
