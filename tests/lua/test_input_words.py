"""Which words of a submission may name files that its job reads: as nimo-advise has it."""

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sacct_ingest.scripts.input_words import input_words
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


PIECES = st.sampled_from(
    [
        *("a.bam", "b/", "./c.csv", "/data/d.fq.gz", "in", "1.5", "-o", "--out=x.y", "-i"),
        *("--i=e.f", "X=g.h", "X=/data", "$X", "${X}/i.j", "$1", "$U", "'k.l'", '"m n.o"'),
        *("cd", "echo", "export", ";", "|", "&&", ">", ">>", "2>&1", "<", "<<<", "<<EOF", "EOF"),
        *("(", ")", "{", "}", "[", "]", "#", " #", ",", "=", "~/p.q", "..", "../r.s", "*.t", "`"),
        *("\\\n", "\n", "\t", "\r", "\v", "é.u", "# properties = ", '"input": ["v.w"]'),
        *("nxf_stage", "ln -s /x.y z", "http://a.b/c.d", "/usr/e", "\x00", "\x7f", ".", "/"),
        *("snakemake ", " --wait-for-files ", "'.snakemake/w.x'"),
        *("//f.g", "-", "--", "=h.i", "then", "do"),
    ]
)
TEXTS = st.lists(PIECES | st.just(" "), max_size=30).map("".join)
SAME_HOOKS = settings(
    max_examples=150,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    deadline=None,
)


@SAME_HOOKS
@given(arguments=st.lists(PIECES, max_size=5), script=TEXTS, standard_input=PIECES)
def test_both_find_the_same_words(hooks, arguments, script, standard_input):
    variables = {"HOME": "/home/ada", "U": "/u/v.w"}
    paths = input_words(
        arguments,
        script,
        work_dir="/home/ada/run",
        standard_input=standard_input,
        variables=variables,
    )
    found = hooks.lua.eval(f"dofile('{hooks.folder}/nimo_words.lua')")(
        lua_value(hooks, arguments),
        lua_value(hooks, script),
        "/home/ada/run",
        lua_value(hooks, standard_input),
        variables.get,
    )
    assert [str(one).encode("latin-1").decode() for one in found.values()] == paths
