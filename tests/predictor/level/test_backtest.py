"""Records, intervals and verdicts on generated sites: good applications and bad ones."""

import math
import random
from functools import cache

import msgspec
import pytest
from msgspec.structs import replace

from predictor.level import backtest
from predictor.level.backtest import ExpertPanel, NextRun, replay
from predictor.level.calibration import BacktestSettings, Calibrator
from predictor.level.distribution import calibrated
from predictor.level.experts import MIXED, Guesses
from predictor.level.record import (
    POOLED,
    PooledErrors,
    Record,
    RecordEntry,
    decode,
    encode,
    pooled,
    pooled_errors,
)
from predictor.sample import Sample
from predictor.tables.of_curve import mixed
from tests.predictor.rows import row

SETTINGS = BacktestSettings()
COUNTS = (1, 2, 4, 8)
SEEDS = range(10)
RUNS = 48


def steady(rng, nodes, _):
    """One problem with 2 % of noise."""
    return (600 / nodes + 40) * rng.lognormvariate(0, 0.02)


def hung(rng, nodes, number):
    """The same, but one run in a hundred hangs."""
    return steady(rng, nodes, number) * (20 if rng.random() < 0.01 else 1)


def inputs(rng, nodes, number):
    """Two users with one script, whose inputs differ."""
    return steady(rng, nodes, number) * (1 if rng.random() < 0.6 else 5)


def alternating(rng, nodes, number):
    """One input after the other, a few runs each."""
    return steady(rng, nodes, number) * (1 if number // 3 % 2 else 3)


def changing(rng, nodes, number):
    """The problem changes every nine runs."""
    return steady(rng, nodes, number) * 1.6 ** (number // 9 % 3)


def heavy(rng, nodes, number):
    """Heavy tails."""
    return steady(rng, nodes, number) * math.exp(0.4 * rng.gauss(0, 1) / rng.uniform(0.2, 1))


GOOD = (steady, hung)
BAD = (inputs, alternating, changing, heavy)


def history(times, seed, runs=RUNS):
    """Runs one after the other, so that each knows all that came before."""
    rng, at_s, made = random.Random(f"{times.__name__} {seed}"), 1e9, []
    for number in range(runs):
        nodes = rng.choice(COUNTS)
        elapsed = times(rng, nodes, number)
        made.append(Sample(nodes, elapsed, at_s + elapsed, submit_s=at_s, limit_s=1e6))
        at_s += elapsed + 60
    return made


def of(runs, site=PooledErrors()):  # noqa: B008 - frozen
    return replay(runs, Record(), site, SETTINGS, same=True)


@cache
def site():
    """Record of a site with applications of all kinds."""
    recorded = PooledErrors()
    for first in (1000, 2000):
        entries = []
        for times in (*GOOD, *BAD):
            for seed in SEEDS:
                entries += of(history(times, first + seed), recorded).entries
        recorded = pooled_errors(pooled((), entries))
    return recorded


def next_of(times, seed, recorded):
    """What is said of the last run, from those before, and what came."""
    *past, last = history(times, seed)
    now = NextRun(
        ExpertPanel(past, same=True, curve=curve(past)), of(past, recorded), recorded, SETTINGS
    )
    return now, now.judge(last.nodes), math.log(last.elapsed_s)


def curve(runs):
    return backtest.curve_of(runs, COUNTS, SETTINGS)


@pytest.mark.slow
@pytest.mark.parametrize("times", GOOD)
def test_a_good_application_is_reliable(times):
    said = [next_of(times, seed, site()) for seed in SEEDS]
    assert sum(now.calibrator.reliable(judged) for now, judged, _ in said) >= 0.8 * len(SEEDS)


@pytest.mark.slow
@pytest.mark.parametrize("times", BAD)
@pytest.mark.parametrize("recorded", ["a site", "nothing"])
def test_a_bad_application_never_is(times, recorded):
    for seed in SEEDS:
        now, judged, _ = next_of(times, seed, site() if recorded == "a site" else PooledErrors())
        assert not now.calibrator.reliable(judged)


@pytest.mark.slow
def test_intervals_hold_nine_in_ten_of_all_and_of_each_kind():
    held = {}
    for times in (*GOOD, *BAD):
        for seed in SEEDS:
            entries = of(history(times, seed), site()).entries
            held.setdefault(times.__name__, []).extend(e.inside for e in entries)
    shares = {name: sum(one) / len(one) for name, one in held.items()}
    every = [one for some in held.values() for one in some]
    assert 0.85 <= sum(every) / len(every) <= 0.97
    assert min(shares.values()) >= 0.75, shares


@pytest.mark.slow
def test_the_first_prediction_at_a_site_of_bad_applications_is_as_careful():
    """What the others did is known before an application has a record of its own."""
    entries = [e for seed in SEEDS for e in of(history(inputs, 500 + seed)).entries]
    bad = pooled_errors(pooled((), entries))
    first = history(steady, 1, runs=9)
    fresh, recorded = (
        NextRun(ExpertPanel(first, same=True, curve=curve(first)), Record(), one, SETTINGS)
        for one in (PooledErrors(), bad)
    )
    for nodes in {run.nodes for run in first}:
        wide, narrow = recorded.judge(nodes), fresh.judge(nodes)
        assert wide.high - wide.low > 1.2 * (narrow.high - narrow.low)


def test_a_record_goes_on_where_it_was_left():
    runs = history(steady, 3)
    early = of(runs[:40])
    later = replay(runs, early, PooledErrors(), SETTINGS, same=True)
    assert later.entries[: len(early.entries)] == early.entries
    assert [e.end_s for e in later.entries[len(early.entries) :]] == [r.end_s for r in runs[40:]]
    assert replay(runs, later, PooledErrors(), SETTINGS, same=True) is later


def test_nothing_is_learned_from_runs_that_had_not_ended():
    """Tasks of an array are submitted together: each is predicted from what came before all."""
    before = [Sample(1, 100.0, 1000.0 * i + 100, submit_s=1000.0 * i) for i in range(1, 9)]
    together = [Sample(1, 500.0, 10_500.0 + i, submit_s=10_000.0) for i in range(6)]
    last = of([*before, *together]).entries[-6:]
    assert all(entry.error == pytest.approx(math.log(5), abs=0.01) for entry in last)


def test_a_run_that_was_cut_short_counts_only_where_it_was_too_long_already():
    before = [Sample(1, 100.0, 1000.0 * i + 100, submit_s=1000.0 * i) for i in range(1, 9)]
    early = Sample(1, 50.0, 9050.0, censored=True, submit_s=9000.0)
    late = Sample(1, 400.0, 9400.0, censored=True, submit_s=9000.0)
    assert of([*before, early]).entries == of(before).entries
    assert of([*before, late]).entries[-1].error == pytest.approx(math.log(4), abs=0.01)


@pytest.mark.slow
def test_who_has_the_better_record_is_believed():
    """Of two inputs in long turns the last run says most, though the curve is smooth."""

    def turns(rng, nodes, number):
        return steady(rng, nodes, number) * (1 if number // 12 % 2 else 4)

    errors = []
    for seed in SEEDS:
        entries = of(history(turns, seed)).entries[8:]
        errors += [(abs(entry.error), abs(entry.errors[0])) for entry in entries]
    own, usual = (sum(math.exp(-e) for e in one) for one in zip(*errors, strict=True))
    assert own > usual


def mixed_of(entries, times_s):
    """Run time that is said where experts on several problems say these."""
    logs = (*map(math.log, times_s), None, None, None)
    calibrator = Calibrator(entries, PooledErrors(), SETTINGS, same=False)
    return math.exp(calibrator.judge(Guesses(logs, 3, None)).log_s)


def test_of_several_problems_all_experts_have_a_say():
    """Nobody has a record: what is between them is believed, and later who was right."""
    assert mixed_of([], (100.0, 110.0, 121.0, 110.0)) == pytest.approx(110.0)
    wrong = replace(next(entries_with(1.0, 1)), same=False)
    right = [replace(wrong, errors=(1.0, 1.0, 0.0, 1.0, None, None, None, 1.0), chosen=7)] * 30
    assert mixed_of(right[:1], (100.0, 100.0, 200.0, 100.0)) == pytest.approx(100.0)
    assert mixed_of(right, (100.0, 100.0, 200.0, 100.0)) == pytest.approx(200.0)


@pytest.mark.parametrize("times", [inputs, alternating, changing, heavy])
def test_the_mixture_is_never_much_worse_than_its_best_expert(times):
    accuracies = {}
    for seed in SEEDS:
        record = replay(history(times, seed), Record(), PooledErrors(), SETTINGS, same=False)
        for entry in record.entries:
            for expert, error in enumerate(entry.errors):
                if error is not None:
                    accuracies.setdefault(expert, []).append(math.exp(-abs(error)))
    means = {expert: sum(one) / len(one) for expert, one in accuracies.items()}
    mixed = means.pop(MIXED)
    assert set(means) == {0, 1, 2, 3}
    assert mixed >= max(means.values()) - 0.05


def test_entries_of_an_earlier_release_have_no_mixture_and_count():
    older = [replace(one, same=False) for one in entries_with(0.4, 30)]
    newer = [replace(one, errors=(*one.errors, 0.2), chosen=MIXED) for one in older]
    table = pooled_errors([*older, *newer])
    (accuracies,) = table.accuracies.values()
    assert accuracies[0] == pytest.approx(math.exp(-0.4))
    assert accuracies[MIXED] == pytest.approx(math.exp(-0.2))
    judged = Calibrator(older, PooledErrors(), SETTINGS, same=False).judge(
        Guesses((*[math.log(100.0)] * 4, None, None, None), 3, None)
    )
    assert judged.half == pytest.approx(0.4, rel=0.3)


@pytest.mark.parametrize("same", [True, False])
def test_only_what_changes_jobs_is_judged_without_others(*, same):
    record = replay(history(inputs, 1), Record(), PooledErrors(), SETTINGS, same=same)
    assert record.entries
    assert all((entry.acting is not None) is same for entry in record.entries)


def test_judges_that_share_a_record_say_what_each_says_alone():
    entries = [*entries_with(0.2, 12), *entries_with(-0.7, 9)]
    site = pooled_errors([*entries_with(0.4, 40), *entries_with(-0.3, 40)])
    asked = [
        Guesses((*map(math.log, (90.0, 95.0, 100.0, 105.0)), None, None, None), 3, None),
        Guesses((None, None, None, None, 4.5, 4.4, None), 0, (4.5, 0.3)),
    ]
    first = Calibrator(entries, PooledErrors(), SETTINGS, same=True)
    second = first.with_pooled(site)
    for guesses in [*asked, *asked]:
        assert first.judge(guesses) == Calibrator(
            entries, PooledErrors(), SETTINGS, same=True
        ).judge(guesses)
        assert second.judge(guesses) == Calibrator(entries, site, SETTINGS, same=True).judge(
            guesses
        )
    assert first.judge(asked[0]) != second.judge(asked[0])


def test_a_walk_takes_into_account_what_had_ended_at_the_submission_and_nothing_else():
    """Runs that wait for each other, overlap, and were cut short; each is left to its own past.

    Where half of the runs before on its count were cut off, no median was said: no entry.
    """
    rng = random.Random(4)
    runs = []
    for number in range(30):
        submit_s, took = 900.0 * rng.randrange(20), rng.uniform(100.0, 4000.0)
        cut = number % 7 == 3
        runs.append(
            Sample(rng.choice((1, 2, 4)), took, submit_s + took, censored=cut, submit_s=submit_s)
        )
    record = replay(runs, Record(), PooledErrors(), BacktestSettings(replayed=30), same=False)
    judged = {(entry.end_s, entry.repeats) for entry in record.entries}
    expected, without_median = set(), set()
    for run in runs:
        ended = [one for one in runs if one.end_s <= run.submit_s]
        here = [one for one in ended if one.nodes == run.nodes]
        finished = sum(not one.censored for one in here)
        if here and 2 * finished <= len(here):
            without_median.add(run.end_s)
        elif not run.censored and not all(one.censored for one in ended):
            expected.add((run.end_s, finished))
    assert expected
    assert without_median
    assert expected <= judged
    assert {end_s for end_s, _ in judged - expected} <= {run.end_s for run in runs if run.censored}
    assert without_median.isdisjoint(end_s for end_s, _ in judged)


def test_no_interval_is_wider_than_numbers_are():
    """A site whose narrow predictions were off by orders of magnitude says nothing absurd."""
    wild = pooled_errors([msgspec.structs.replace(e, scale=1e-3) for e in entries_with(9.0, 60)])
    runs = history(inputs, 1)
    now = NextRun(ExpertPanel(runs, same=True), of(runs, wild), wild, SETTINGS)
    for nodes in COUNTS:
        judged = now.judge(nodes)
        assert judged.log_s - 8.0 <= judged.low <= judged.log_s <= judged.high
        assert judged.high <= judged.log_s + 8.0


@pytest.mark.parametrize(
    ("errors", "several"),
    [
        ([0.3] * 6 + [0.01] * 4, True),
        ([0.3] * 4 + [0.01] * 6, False),
        ([0.5] * 3 + [0.01] * 7, True),
        ([0.5] * 2 + [0.01] * 8, False),
        ([0.5] * 4, False),
    ],
)
def test_runs_are_not_one_problem_where_they_differ_too_much(errors, *, several):
    """Half are off by more than a fifth, or one in four by more than half; of five or more."""
    entries = (one for error in errors for one in entries_with(error, 1))
    problems = mixed(Record(tuple(entries)), "my job")
    assert bool(problems) is several
    assert all("'#SBATCH --comment=nimo:app=my-job,problem=INPUT'" in p.text for p in problems)
    new = (replace(one, repeats=0) for error in errors for one in entries_with(error, 1))
    assert mixed(Record(tuple(new)), "my job") == ()


@pytest.mark.parametrize(
    ("times", "found"),
    [((3, 3, 12, 12, 3, 12), True), ((3, 3, 3, 12, 3, 12), False), ((3, 4, 6, 8, 9, 12), False)],
)
def test_few_runs_without_a_record_are_of_two_kinds_where_each_is_seen_thrice(times, found):
    problems = mixed(Record(()), "solve", [row(1, float(one)) for one in times])
    assert bool(problems) is found


@pytest.mark.parametrize(
    ("times", "two"), [((600, 3600, 620), True), ((600, 900, 1300, 1900), False)]
)
def test_two_kinds_of_runs_are_named_as_two(times, *, two):
    rows = [row(4, float(times[i % len(times)] + i)) for i in range(40)]
    (found,) = mixed(Record(tuple(entries_with(0.5, 10))), "solve", rows)
    words = "two kinds of runs: 27 of the last 40 took about 10 min, 13 about 1 h;"
    assert found.text.startswith(words) is two


@pytest.mark.slow
@pytest.mark.parametrize("times", [*GOOD, inputs, alternating])
def test_several_inputs_under_one_name_are_not_one_problem(times):
    problems = [bool(mixed(of(history(times, seed)), "solve")) for seed in SEEDS]
    several = times in BAD
    assert sum(problem is several for problem in problems) >= 0.8 * len(SEEDS)


def test_records_round_trip():
    record = of(history(steady, 1))
    assert decode(encode(record), Record) == record
    assert decode("[[[1]]]", Record) == decode(None, Record) == Record()


def entries_with(error, count):
    for number in range(count):
        yield RecordEntry(
            end_s=float(number),
            same=True,
            repeats=3,
            curve=True,
            size=5.0,
            errors=(error,) * 7,
            chosen=0,
            scale=0.02,
            fell=(0.5 if abs(error) < 0.05 else 0.999,),
            width=0.05,
            inside=error < 0.05,
            informed=True,
        )


def test_a_site_where_narrow_intervals_failed_asks_for_narrower_ones():
    assert pooled_errors(list(entries_with(0.01, 60))).reliable == PooledErrors().reliable
    failed = [*entries_with(0.01, 30), *entries_with(1.0, 30)]
    assert pooled_errors(failed).reliable < 0.06 < PooledErrors().reliable
    assert pooled_errors(failed).fell["same seen"][-1] > 0.99


def test_a_site_whose_reliable_predictions_were_not_near_asks_for_narrower_ones():
    """All are within a fifth: what is wrong is that less than half are within a twentieth."""

    def of_width(error):
        return [replace(one, width=0.12) for one in entries_with(error, 60)]

    assert pooled_errors(of_width(0.04)).reliable == PooledErrors().reliable
    assert pooled_errors(of_width(0.08)).reliable < 0.12
    assert pooled_errors([*of_width(0.08), *of_width(0.04)]).reliable == PooledErrors().reliable


def judged_by(entries, recorded):
    """What is said where all experts say 100 s, on a count that was run three times."""
    calibrator = Calibrator(entries, recorded, SETTINGS, same=True)
    return calibrator, calibrator.judge(Guesses((math.log(100.0),) * 7, 3, (math.log(100.0), 0.02)))


def test_a_good_site_does_not_make_up_for_an_applications_own_misses():
    fine = pooled_errors(list(entries_with(0.01, 400)))
    good = list(entries_with(0.01, 8))
    missed = [*good[:7], replace(good[7], errors=(0.5,) * 7)]
    for entries, reliable in ((good, True), (missed, False)):
        calibrator, judged = judged_by(entries, fine)
        assert calibrator.reliable(judged) is reliable


def test_intervals_are_wider_by_what_the_sites_missed():
    entries = list(entries_with(0.04, 8))
    _, plain = judged_by(entries, PooledErrors(fell={"same seen": (0.1, 0.5, 0.9)}))
    _, wider = judged_by(entries, PooledErrors(fell={"same seen": (0.1, 0.5, 0.999)}))
    assert wider.high > plain.high
    assert wider.low == pytest.approx(plain.low, abs=0.02)


def test_where_most_applications_are_hard_a_smooth_beginning_is_not_believed():
    """Nor is it for long: many such beginnings that turned out well earn it."""

    def beginnings(count):
        return [replace(one, size=2.0) for one in entries_with(0.01, count)]

    hard = [replace(one, width=0.8) for one in entries_with(0.7, 60)]
    fine = [replace(one, width=0.1) for one in entries_with(0.02, 60)]
    assert pooled_errors(fine).fresh == PooledErrors().fresh
    assert pooled_errors([*hard, *beginnings(5)]).fresh == 0.0
    assert pooled_errors([*hard, *beginnings(300)]).fresh == PooledErrors().fresh
    runs = history(steady, 2, runs=4)
    record = of(runs)
    for entries, reliable in ((fine, True), (hard, False)):
        # It says nothing but how far such beginnings are believed.
        recorded = PooledErrors(fresh=pooled_errors(entries).fresh)
        now = NextRun(ExpertPanel(runs, same=True, curve=curve(runs)), record, recorded, SETTINGS)
        judged = now.judge(runs[-1].nodes)
        assert judged.size < 5
        assert now.calibrator.reliable(judged) is reliable


def test_intervals_that_missed_of_late_become_wider():
    """Some of the record is at the ends: the newer that is, the wider is the next interval."""
    inside, beyond = [(i + 0.5) / 20 for i in range(20)], [0.01, 0.99] * 3
    missed, held = (
        calibrated(0.05, [(pit, 0.9**i) for i, pit in enumerate(pits)], ())
        for pits in (beyond + inside, inside + beyond)
    )
    assert missed[0] < held[0] < held[1] < missed[1]


def test_the_pool_keeps_the_newest_of_each_class():
    old, new = list(entries_with(0.5, 300)), list(entries_with(0.1, 300))
    remaining = pooled(old, new)
    assert len(remaining) == 400
    assert min(e.end_s for e in remaining) == 100.0


def test_no_user_crowds_out_the_others_in_a_sites_record():
    few = [replace(one, owner="ada") for one in entries_with(0.01, 150)]
    many = [replace(one, owner="mallory", end_s=1e6 + one.end_s) for one in entries_with(2.0, 5000)]
    remaining = pooled(few, many)
    assert len(remaining) == POOLED
    assert [one for one in remaining if one.owner == "ada"] == few
    assert remaining == sorted(remaining, key=lambda one: one.end_s)
    assert pooled(pooled(few, many[:2000]), many[2000:]) == remaining
    # Where nobody else is, one user's fill it.
    assert len(pooled([], many)) == POOLED
