"""What the models of another release predicted decides nothing and is told to nobody."""

from hypothesis import given
from hypothesis import strategies as st

from predictor.stored_table import encode
from slurm_plugin.decision.lookup import PredictionLookup
from slurm_plugin.protocol.reasons import Reason
from slurm_plugin.reports.advice_answer import answer
from tests.predictor.rows import of_another_release
from tests.slurm_plugin.decision.requests_of_all_shapes import (
    SITES,
    USERS,
    requests,
    service,
    tables_of,
)
from tests.slurm_plugin.decision.submitting import advisor, submit
from tests.slurm_plugin.made import NOW, job, table


def aged(*made):
    texts = ((one.level, one.key, of_another_release(encode(one))) for one in made)
    return PredictionLookup(texts)


@given(site=st.sampled_from(sorted(SITES)), seed=st.integers(0, 10**6))
def test_nothing_comes_of_tables_of_another_release(site, seed):
    decides = service(SITES[site])
    decides.tables = aged(*(one for user in USERS for one in tables_of(user)))
    for request in requests(seed):
        answer, _ = decides.submit(request, via="job_submit", now_s=NOW)
        assert (answer.action, answer.set) == ("keep", None)
        assert "nimo: runs" not in answer.message
        advice = decides.advise(request, now_s=NOW)
        assert not advice.rows
        assert not advice.directive
        assert not advice.time_directive
        assert not advice.memory_directive
        assert advice.observe is None


def test_the_reason_says_what_to_do():
    site = advisor()
    assert submit(site)[0].set is not None
    site.tables = aged(table())
    assert submit(site)[0].reason == Reason.OTHER_MODELS
    assert submit(site, job(comment="nimo:time=set"))[0].message == (
        "nimo: time=set changes nothing: another release of NIMO made its prediction; "
        "'nimo fit' makes it anew; it takes enough of your own runs for a reliable prediction"
    )
    advice = site.advise(job(), now_s=NOW)
    assert advice.verdict_text == "There is no prediction."
    assert answer(advice, every_sentence=True) == (
        "There is no prediction.\n\n"
        "Another release of NIMO made its prediction, which is not used: 'nimo fit' makes it anew."
    )


def test_they_are_counted_until_they_are_made_anew():
    tables = aged(table(), table(key="alice/other"))
    assert tables.outdated == 2
    newer = tables.renewed(
        [("name", "alice/solve", encode(table()))], version=2, off=(), node_types={}, some=True
    )
    assert (newer.outdated, len(newer)) == (1, 2)
