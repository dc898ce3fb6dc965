"""Which attributes tell problems apart, how runs ended and where they worked."""

import math
import random
from dataclasses import replace
from functools import partial

import pytest

from predictor.application.surface import for_sizes
from predictor.job_table import for_limit, part_for
from predictor.level.record import Record, decode, encode
from predictor.prediction_table import AtLimit
from predictor.sizes import SizeTerm
from predictor.submission import folder_digest, for_inputs, for_script
from predictor.table import at
from predictor.tables.build import IdentityRuns
from predictor.tables.parts import tables_of
from predictor.tables.run_facts import limit_reached
from predictor.tables.settings import TableSettings
from predictor.tables.split import Axis, choose
from predictor.types import Verdict
from sacct_ingest.records import JobState, KeyLevel
from sacct_ingest.runs.layout import Unit
from sacct_ingest.runs.submission import Said, Submission
from tests.predictor.rows import row as one_run
from tests.predictor.rows import submitted
from tests.predictor.tables.test_parts import row

pytestmark = pytest.mark.kernels

SEEDS = range(12)


def example(number, log_s, values, *, nodes=4):
    at_s, time_s = 10**6 * number, math.exp(log_s)
    ran = {"submit_s": at_s, "end_s": at_s + time_s, "submission": Submission(said=Said(values))}
    return replace(one_run(nodes, time_s), **ran)


def chosen(runs, before=(), **how):
    return choose(Axis(Unit.NODES, {}).last_finished(runs), before, **how)


def mixed(seed, runs=40):
    """Input b takes five times as long as input a; nothing else matters."""
    rng = random.Random(seed)
    made = []
    for number in range(runs):
        given, nodes = rng.choice("ab"), rng.choice((1, 2, 4))
        log_s = math.log((500 if given == "b" else 100) / nodes) + rng.gauss(0, 0.05)
        values = {"in": given, "seed": str(number), "debug": rng.choice("01"), "same": "x"}
        made.append(example(number, log_s, values, nodes=nodes))
    return made


@pytest.mark.parametrize("seed", SEEDS)
def test_what_explains_run_times_is_chosen_and_nothing_else(seed):
    assert chosen(mixed(seed)) == ("in",)


@pytest.mark.parametrize("seed", SEEDS)
def test_an_attribute_that_explains_nothing_is_not_chosen(seed):
    """Neither one that is new in each run, nor one of chance, however wild the run times."""
    rng = random.Random(seed)
    wild = []
    for i in range(40):
        values = {"seed": str(i), "debug": rng.choice("01"), "x": rng.choice("abcd")}
        wild.append(example(i, rng.gauss(5, 1), values))
    assert chosen(wild) == ()


@pytest.mark.parametrize("off", [0.03, 0.09])
def test_one_problem_is_not_split(off):
    """A few percent that an argument explains are no other problem."""
    rng = random.Random(1)
    runs = []
    for i in range(60):
        given = rng.choice("ab")
        runs.append(example(i, 5 + off * (given == "b") + rng.gauss(0, 0.005), {"in": given}))
    assert chosen(runs) == ()


def twelve(seed, *, shuffled=False, labels=None):
    """Twelve runs with two inputs in any order, of which b takes twice as long."""
    rng = random.Random(seed)
    labels = labels or rng.sample("ab" * 6, 12)
    named = rng.sample(labels, 12) if shuffled else labels
    return [
        example(i, math.log(1 + (given == "b")) + rng.gauss(5, 0.1), {"INPUT": name})
        for i, (given, name) in enumerate(zip(labels, named, strict=True))
    ]


def test_twelve_runs_are_enough_to_tell_two_inputs_apart():
    """With shuffled labels there is at most one false split in a hundred histories."""
    assert sum(chosen(twelve(seed)) == ("INPUT",) for seed in range(100)) >= 90
    assert sum(chosen(twelve(seed, shuffled=True)) != () for seed in range(100)) <= 1
    alone = [chosen(twelve(seed), few=False) for seed in range(100)]
    assert alone.count(("INPUT",)) < 75


def test_an_input_that_came_and_went_may_be_the_time():
    assert chosen(twelve(1, labels=["a"] * 6 + ["b"] * 6)) == ()


def test_inputs_of_twelve_submissions_by_export_have_a_table_each():
    given = []
    for i, name in enumerate("abbabaabbaab"):
        line = f"sbatch -N 4 --export=ALL,INPUT={name} run.sh"
        one = row(i, 4, 600.0 * (1 + (name == "b")) + i)
        given.append(submitted(one, line, tag="ann/solve"))
    assert "with INPUT=b" in made_of(fitted(given), given[1]).label


def test_two_attributes_that_both_matter_are_chosen():
    rng = random.Random(3)
    runs = []
    for i in range(80):
        a, b = rng.choice("12"), rng.choice("xy")
        log_s = 4 + 1.5 * (a == "2") + 0.8 * (b == "y") + rng.gauss(0, 0.05)
        runs.append(example(i, log_s, {"a": a, "b": b, "c": rng.choice("pq")}))
    assert chosen(runs) == ("a", "b")


def test_a_split_stays_where_another_is_as_good():
    """Two attributes that say the same: the one of the last fit goes on."""
    runs = [
        replace(one, submission=Submission(said=Said({"alias": given, "in": given})))
        for one in mixed(1)
        for given in [one.attributes["in"]]
    ]
    assert chosen(runs) == ("alias",)
    assert chosen(runs, before=("in",)) == ("in",)


def test_a_split_that_explains_nothing_any_more_goes():
    rng = random.Random(5)
    same = [example(i, 5 + rng.gauss(0, 0.02), {"in": rng.choice("ab")}) for i in range(40)]
    assert chosen(same, before=("in",)) == ()


def test_only_what_had_ended_explains():
    """Jobs that were submitted together tell nothing of each other."""
    together = [replace(one, submit_s=0.0, end_s=1e9) for one in mixed(1)]
    assert chosen(together) == ()


def rows(seed, *, named=True, runs=48):
    """One script that alternates between two inputs, which its command line names or does not."""
    rng = random.Random(seed)
    made = []
    for number in range(runs):
        given, nodes = "ab"[number // 3 % 2], rng.choice((1, 2, 4, 8))
        time_s = (600 / nodes + 40) * (3 if given == "b" else 1) * rng.lognormvariate(0, 0.01)
        one = row(number, nodes, round(time_s, 3))
        line = f"sbatch -N {nodes} run.sh IN={given}" if named else f"sbatch -N {nodes} run.sh"
        made.append(submitted(one, line, tag="ann/solve"))
    return made


def fitted(given, level=KeyLevel.TAG):
    return tables_of(IdentityRuns(level, "ann/solve", given, 9.0), TableSettings())


def made_of(made, job):
    """Table that a job like this one finds."""
    whole = made[0].table
    part = part_for(whole, None, partial(getattr, job, "attributes"))
    return next((one.table for one in made if part and one.key == part.key and one.table), whole)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_job_finds_the_runs_with_its_own_input(seed):
    """Each input is a problem of its own, and a good one."""
    given = rows(seed)
    made = fitted(given)
    for one, scale in ((given[0], 1), (given[3], 3)):
        table = made_of(made, one)
        assert table.is_curve
        assert table.verdict is Verdict.RELIABLE
        assert f"with IN={'ab'[scale // 3]}" in table.label
        actual = (600 / 2 + 40) * scale
        assert table.median_s[table.nodes.index(2)] == pytest.approx(actual, rel=0.05)


@pytest.mark.parametrize("seed", SEEDS)
def test_where_nothing_names_the_input_no_prediction_is_reliable(seed):
    (only,) = fitted(rows(seed, named=False))
    assert Verdict.RELIABLE not in {only.table.verdict, *only.table.verdicts}
    assert any("nimo:app=" in problem.text for problem in only.table.problems)


def test_a_job_with_a_new_input_is_doubtful_with_the_reason():
    given = rows(1)
    other = submitted(given[0], "sbatch -N 1 run.sh IN=c", tag="ann/solve")
    table = made_of(fitted(given), other)
    assert Verdict.RELIABLE not in {table.verdict, *table.verdicts}
    assert table.problems[0].text == (
        "several problems: run times differ by IN (runs with IN=a; IN=b)"
    )


def test_the_next_fit_goes_on_with_the_split_and_its_records():
    given = rows(2)
    first = fitted(given[:40])
    assert first[0].record.split == ("IN",)
    records = {one.key: decode(encode(one.record), Record) for one in first}
    second = tables_of(
        IdentityRuns(KeyLevel.TAG, "ann/solve", given, 9.0), TableSettings(), records=records
    )
    assert [one.key for one in second] == [one.key for one in first]
    for before, after in zip(first[1:], second[1:], strict=True):
        assert after.record.entries[0] == before.record.entries[0]
        assert after.new > 0


def test_runs_of_one_name_are_split_by_arguments_too():
    given = [replace(one, tag="") for one in rows(4)]
    table = made_of(fitted(given, KeyLevel.NAME), given[3])
    assert "with IN=b" in table.label
    assert table.median_s[table.nodes.index(2)] == pytest.approx((600 / 2 + 40) * 3, rel=0.05)


def test_runs_of_several_users_and_of_a_user_alone_are_not_split():
    shared = [replace(one, user="bob" if i % 2 else "ann") for i, one in enumerate(rows(4))]
    assert len(fitted(shared)) == 1
    assert len(fitted(rows(4), KeyLevel.USER)) == 1


START = 1_790_000_000


def table_of(rows, level=KeyLevel.LINE):
    (table,) = tables(rows, level)
    return table


def tables(rows, level=KeyLevel.LINE):
    made = tables_of(IdentityRuns(level, "key", rows, START), TableSettings())
    return [one.table for one in made if one.table is not None]


def ended(state, number, elapsed_s=600.0):
    return [one_run(4, elapsed_s + i, state) for i in range(number)]


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (JobState.TIMEOUT, "all 10 runs of this command reached their time limit"),
        (JobState.FAILED, "all 10 runs of this command failed"),
        (JobState.OUT_OF_MEMORY, "all 10 runs of this command ran out of memory"),
    ],
)
def test_a_command_that_never_finished_has_a_table_that_says_so(state, words):
    table = table_of(ended(state, 10))
    assert (table.verdict, table.nodes, table.runs) == (Verdict.REFUSED, (), 0)
    assert [problem.text for problem in table.problems] == [words]


def test_what_the_cluster_or_a_person_ended_says_nothing():
    rows = ended(JobState.CANCELLED, 5) + ended(JobState.NODE_FAIL, 5)
    assert tables(rows) == []


def test_half_of_the_runs_failing_is_reported_beside_the_prediction():
    rows = [one_run(n, 600.0 / n) for n in (1, 2, 4)]
    mixed = table_of(ended(JobState.FAILED, 2) + ended(JobState.TIMEOUT, 1, 9.0) + rows)
    assert "unfinished" in {problem.name for problem in mixed.problems}
    (text,) = (p.text for p in mixed.problems if p.name == "unfinished")
    assert text == "of the last 6 runs of this command 2 failed, 1 reached its time limit"
    few = table_of(ended(JobState.FAILED, 2) + rows)
    assert "unfinished" not in {problem.name for problem in few.problems}


def test_a_new_work_dir_lowers_the_verdict():
    recorded = table_of(
        [submitted(one_run(n, 600.0 / n), work_dir="/data/a") for n in (1, 2, 4, 8)]
    )
    assert recorded.work_dirs == (folder_digest("/data/a"),)
    assert for_inputs(recorded, "/data/a/", None) is recorded
    assert for_inputs(recorded, "", None) is recorded
    elsewhere = for_inputs(recorded, "/data/b", None)
    assert elsewhere.verdict is not Verdict.RELIABLE
    assert Verdict.RELIABLE not in elsewhere.verdicts
    assert elsewhere.problems[0].name == "new_work_dir"


def test_an_edited_script_starts_from_its_runs_less_sure():
    recorded = table_of([replace(one_run(n, 600.0 / n), script="first") for n in (1, 2, 4, 8)])
    assert recorded.script == "first"
    assert for_script(recorded, "first") is recorded
    assert for_script(recorded, "") is recorded
    edited = for_script(recorded, "second")
    assert edited.median_s == recorded.median_s
    rows = zip(edited.low_s, recorded.low_s, recorded.high_s, edited.high_s, strict=True)
    assert all(list(row) == sorted(row) for row in rows)
    # 90 % of what an edit does, as log time: 1.645 times a quarter.
    assert edited.high_s[2] / edited.median_s[2] > math.exp(0.41)
    assert Verdict.RELIABLE not in (edited.verdict, *edited.verdicts)
    assert edited.problems[0].text == (
        "the script was edited after its last run: it may take longer, or shorter"
    )


@pytest.mark.parametrize("limit_s", [None, 600.0, 3_000.0, 7_200.0])
def test_an_edited_script_is_less_sure_whatever_its_limit_and_its_nodes(limit_s):
    recorded = table_of([replace(one_run(n, 600.0 / n), script="first") for n in (1, 2, 4, 8)])
    columns = recorded.median_s, recorded.low_s, recorded.high_s
    limits = tuple(AtLimit(limit, *columns) for limit in (1_000.0, 7_200.0))
    split = replace(recorded, at_limits=limits)
    before, edited = (for_limit(one, limit_s) for one in (split, for_script(split, "second")))
    assert all(now < then for now, then in zip(edited.low_s, before.low_s, strict=True))
    assert all(now > then for now, then in zip(edited.high_s, before.high_s, strict=True))
    assert edited.verdict is not Verdict.RELIABLE


def test_where_each_run_has_its_own_script_a_new_one_says_nothing():
    rows = [replace(one_run(n, 600.0 / n), script=f"made {n}") for n in (1, 2, 4, 8)]
    assert table_of(rows).script == ""
    assert table_of(rows, KeyLevel.TAG).script == ""


def test_where_each_run_has_its_own_work_dir_a_new_one_says_nothing():
    rows = [submitted(one_run(n, 600.0 / n), work_dir=f"/data/{n}") for n in (1, 2, 4, 8)]
    recorded = table_of(rows)
    assert for_inputs(recorded, "/data/b", None) is recorded


def test_a_tag_names_the_problem_wherever_it_runs():
    rows = [submitted(one_run(n, 600.0 / n), work_dir="/data/a") for n in (1, 2, 4, 8)]
    recorded = table_of(rows, KeyLevel.TAG)
    assert for_inputs(recorded, "/data/b", recorded.last_s + 1) is recorded


def test_an_input_that_changed_since_the_last_run_lowers_the_verdict():
    recorded = table_of([replace(one_run(n, 600.0 / n), end_s=START) for n in (1, 2, 4, 8)])
    assert recorded.last_s == START - 75
    assert for_inputs(recorded, "", recorded.last_s - 1) is recorded
    changed = for_inputs(recorded, "", recorded.last_s + 1)
    assert changed.verdict is not Verdict.RELIABLE
    assert changed.problems[0].name == "new_input"


def stopped(state, limit_s, mem_bytes=8_000):
    return replace(one_run(4, 600.0, state), limit_s=limit_s, req_mem_bytes=mem_bytes)


@pytest.mark.parametrize(
    ("ends", "reached"),
    [
        ([(JobState.TIMEOUT, 600)] * 2, ("TIMEOUT", 2, 600.0)),
        ([(JobState.TIMEOUT, 600), (JobState.TIMEOUT, 300), (JobState.TIMEOUT, 300)],
         ("TIMEOUT", 2, 300.0)),
        ([(JobState.TIMEOUT, 600), (JobState.CANCELLED, 600), (JobState.TIMEOUT, 600)],
         ("TIMEOUT", 2, 600.0)),
        ([(JobState.OUT_OF_MEMORY, 600), (JobState.OUT_OF_MEMORY, 900)],
         ("OUT_OF_MEMORY", 2, 2_000.0)),
        ([(JobState.TIMEOUT, 600), (JobState.TIMEOUT, 900)], None),
        ([(JobState.TIMEOUT, 600), (JobState.COMPLETED, 600), (JobState.TIMEOUT, 600)], None),
        ([(JobState.FAILED, 600)] * 3, None),
    ],
)  # fmt: skip
def test_a_limit_that_ended_the_latest_runs_in_a_row_is_noted(ends, reached):
    made = limit_reached([stopped(*one) for one in ends])
    assert (made and (made.state, made.runs, made.limit)) == reached


@pytest.mark.parametrize(("often", "of"), [(3, 9), (3, 30), (2, 9), (3, 31)])
def test_a_limit_that_ended_a_tenth_of_its_runs_is_noted(often, of):
    ends = [(JobState.TIMEOUT, 600)] * often + [(JobState.COMPLETED, 600)] * (of - often)
    made = limit_reached([stopped(*one) for one in [(JobState.COMPLETED, 900), *ends]])
    assert (made and (made.runs, made.often, made.of)) == (
        (0, often, of) if often == 3 and of <= 30 else None
    )


def test_where_run_time_goes_by_inputs_a_changed_one_says_nothing():
    recorded = table_of([replace(one_run(n, 600.0 / n), end_s=START) for n in (1, 2, 4, 8)])
    term = SizeTerm("input bytes", 1.0, 0.1, reference=1e9, low=1e8, high=1e10)
    by_inputs = replace(recorded, sizes=(term,))
    assert for_inputs(by_inputs, "", recorded.last_s + 1) is by_inputs
    other = replace(recorded, sizes=(replace(term, name="--steps"),))
    assert for_inputs(other, "", recorded.last_s + 1).problems[0].name == "new_input"


def of_inputs(gigas, first=0, *, time_s=lambda giga: 30 + 60 * giga, known=True):
    """The same command each time, whose file is another: only its size tells runs apart."""
    return [
        replace(
            submitted(row(first + i, 1, float(time_s(giga))), "sbatch run.sh in.dat"),
            inputs=f"1Kdat={giga * 2**30}" if known else None,
        )
        for i, giga in enumerate(gigas)
    ]


GIGAS = (1, 4, 9, 2, 16, 1, 7, 3, 12, 5, 2, 8)


def table_of_inputs(given, level=KeyLevel.LINE):
    return tables_of(IdentityRuns(level, "key", given, 2e6), TableSettings())[0].table


def at_size(table, giga):
    return at(for_sizes(table, {"input bytes": giga * 2**30}), 1).time_s


@pytest.mark.parametrize("level", [KeyLevel.LINE, KeyLevel.SCRIPT, KeyLevel.TAG, KeyLevel.NAME])
def test_runs_that_differ_in_their_inputs_alone_are_predicted_by_size(level):
    table = table_of_inputs(of_inputs(GIGAS), level)
    assert [term.name for term in table.sizes] == ["input bytes"]
    for giga in (1.5, 10):
        assert at_size(table, giga) == pytest.approx(30 + 60 * giga, rel=0.1)


def test_runs_of_which_nobody_saw_the_inputs_say_nothing_beside_those():
    before = of_inputs(GIGAS * 5, known=False)
    seen = of_inputs(GIGAS, first=60)
    late = of_inputs((6, 11, 3, 8), first=72, known=False)
    table = table_of_inputs([*before, *seen, *late])
    assert [term.name for term in table.sizes] == ["input bytes"]
    assert table.runs == len(seen)
    assert at_size(table, 10) == pytest.approx(630, rel=0.1)


def test_where_inputs_explain_nothing_all_runs_stay():
    rng = random.Random(3)
    before = of_inputs(GIGAS * 5, time_s=lambda _: 300 * rng.lognormvariate(0, 0.2), known=False)
    seen = of_inputs(GIGAS, first=60, time_s=lambda _: 300 * rng.lognormvariate(0, 0.2))
    table = table_of_inputs([*before, *seen])
    assert not table.sizes
    assert table.runs == 72
