"""Of several places that a job names the surely faster one is tried first, if that is asked."""

from dataclasses import replace

import pytest

from predictor.types import Verdict
from sacct_ingest.text.admin_comment import parse
from slurm_plugin.config.setting_types import Mode, PlaceUse
from slurm_plugin.config.settings import ModeRule
from slurm_plugin.decision.service import DecisionService
from slurm_plugin.slurm.cluster_state import Cluster
from tests.slurm_plugin.decision.test_node_types import TYPES, by_type, learned, partition
from tests.slurm_plugin.made import NOW, job, stored, thrifty

ASKED = {"places": True, "min_nodes": 4, "max_nodes": 4, "comment": "nimo:place=auto"}
BOTH = {**ASKED, "partition": "slow,fast"}


def decide(prediction=None, *, mode=Mode.ENFORCE, tiers=(1, 1), settings=None, **asked):
    made = DecisionService(thrifty(mode=mode, **settings or {}), new_id=lambda: "0" * 12)
    made.tables = stored(prediction or learned(), node_types=TYPES)
    parts = {
        "slow": partition("slow", "a", tier=tiers[0]),
        "fast": partition("fast", "c", tier=tiers[1]),
        "mixed": partition("mixed", "ac"),
    }
    made.cluster = Cluster(name="pine", taken_s=NOW, partitions=parts, default_partition="mixed")
    return made.submit(job(**asked), via="job_submit", now_s=NOW)


def written(answer):
    return answer.set and (answer.set.partition or answer.set.prefer)


def test_the_faster_partition_goes_first_and_it_is_said_noted_and_recorded():
    answer, row = decide(**BOTH)
    assert (answer.action, answer.set.partition) == ("set", "fast,slow")
    assert answer.message == (
        "nimo: this job tries fast first of slow,fast (about 5.6 min there, 17 min elsewhere)"
    )
    assert (row.given_place, row.asked_place, row.applied) == ("fast", "slow,fast", True)
    note = parse(answer.admin_comment)
    assert note is not None
    assert (note.place, note.nodes) == ("fast", 4)


def test_of_a_constraint_the_faster_alternative_is_preferred():
    answer, row = decide(**ASKED, partition="mixed", features="a|c")
    assert (answer.set.prefer, answer.set.partition) == ("c", None)
    assert (row.given_place, row.asked_place) == ("c", "a|c")
    assert "tries c first of a|c" in answer.message


@pytest.mark.parametrize(
    "other",
    [
        {"comment": ""},
        {"comment": "nimo:place=off"},
        {"comment": "nimo:off,place=auto"},
        {"places": False},
        {"partition": "fast,slow"},
        {"partition": "fast"},
        {"partition": "slow,mixed"},
        {"partition": "slow,nowhere"},
        {"req_nodes": "a1"},
        {"reservation": "course"},
        {"het_job_offset": 0},
        {"tiers": (1, 2)},
        {"mode": Mode.ADVISE},
        {"mode": Mode.OBSERVE},
        {"user_name": "bob"},
        {"prediction": learned(by_type=(by_type(Verdict.DOUBTFUL, runs=0),))},
        {"prediction": learned(by_type=())},
        {"prediction": learned(verdict=Verdict.DOUBTFUL)},
        {"partition": "mixed", "features": "[a|c]"},
        {"partition": "mixed", "features": "a|c", "prefer": "a"},
        {"partition": "mixed", "features": "a|x"},
    ],
    ids=str,
)
def test_what_is_not_asked_for_or_not_known_well_stays(other):
    assert not written(decide(**BOTH | other)[0])


def test_a_place_that_is_hardly_faster_stays():
    times = tuple(0.97 * one for one in learned().median_s)
    wide = tuple(1.1 * one for one in times)
    near = replace(by_type(), median_s=times, low_s=times, high_s=wide)
    answer, row = decide(learned(by_type=(near,)), **BOTH)
    assert (written(answer), row.given_place) == (None, "")
    assert "place=auto changes nothing: no place is surely faster than the others" in answer.message


@pytest.mark.parametrize(
    ("other", "why"),
    [
        ({"partition": "slow"}, "the job names one place"),
        ({"tiers": (1, 2)}, "differ in priority tier"),
        ({"partition": "slow,mixed"}, "is not known well enough on the nodes of each"),
    ],
)
def test_who_asks_in_vain_is_told_why(other, why):
    assert why in decide(**BOTH | other)[0].message


def test_nothing_is_said_where_the_faster_one_is_first_already():
    assert decide(**BOTH | {"partition": "fast,slow"})[0].message == ""


def test_a_site_switches_it_on_and_off():
    on = {"settings": {"place": PlaceUse.AUTO}, "comment": ""}
    assert written(decide(**BOTH | on)[0]) == "fast,slow"
    assert not written(decide(**BOTH | on | {"comment": "nimo:place=off"})[0])
    assert not written(decide(**BOTH | {"settings": {"place": PlaceUse.OFF}})[0])
    ruled = {"settings": {"rules": (ModeRule(user="alice", place=PlaceUse.OFF),)}}
    assert not written(decide(**BOTH | ruled)[0])


def test_what_it_would_do_is_recorded_in_each_mode():
    answer, row = decide(**BOTH, mode=Mode.OBSERVE)
    assert (row.given_place, row.applied, answer.action) == ("fast", False, "keep")
