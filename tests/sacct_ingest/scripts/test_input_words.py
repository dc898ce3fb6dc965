"""Which words of a submission may name files that its job reads, by the table of Lua, too."""

import json
from pathlib import Path

import pytest

from sacct_ingest.scripts.input_words import input_words

CASES = json.loads((Path(__file__).parents[2] / "data/input-words.json").read_text())


@pytest.mark.parametrize("case", CASES, ids=[case["says"] for case in CASES])
def test_words_that_may_be_files(case):
    paths = input_words(
        case["arguments"],
        case["script"],
        work_dir=case["work_dir"],
        standard_input=case["standard_input"],
        variables=case["variables"],
    )
    assert paths == case["paths"]
