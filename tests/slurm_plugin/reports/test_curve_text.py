from dataclasses import replace

import pytest

from predictor.change import AskedRange
from predictor.facts import Longest, ResourceUse
from predictor.memory import Memory, MemoryNeed
from predictor.prediction_table import Part, PredictionTable, Recorded
from predictor.problems import Problem
from predictor.refit import row_of
from predictor.tables.run_facts import change_of
from predictor.types import Point, Verdict
from sacct_ingest.runs.layout import Layout, Unit
from slurm_plugin.config.settings import Energy
from slurm_plugin.reports import application_list, curve_text
from slurm_plugin.text.table_columns import TableOptions
from slurm_plugin.web.data import entry_of


def recorded(**given):
    nodes = (1, 2, 3, 4, 5, 6)
    times = tuple(3600.0 / n for n in nodes)
    fields = {
        "level": "line",
        "key": "ab12cd34",
        "label": "wrf",
        "model": "usl",
        "verdict": Verdict.RELIABLE,
        "problems": (),
        "nodes": nodes,
        "median_s": times,
        "low_s": tuple(0.9 * t for t in times),
        "high_s": tuple(1.1 * t for t in times),
        "curve_sd": (0.01,) * 6,
        "confidence": 0.9,
        "observed": (Point(1, 3600.0, 5), Point(3, 1200.0, 2)),
        "knee": 4,
        "max_useful": None,
        "runs": 7,
        "mem_node_bytes": None,
        "fitted_s": 0.0,
        "verdicts": (Verdict.RELIABLE,) * 5 + (Verdict.DOUBTFUL,),
    }
    return PredictionTable(**(fields | given))


def rows(text):
    return [line.split() for line in text.split("\n\n")[1].splitlines()[1:]]


def test_observed_counts_powers_of_two_and_the_ends_are_shown():
    assert [row[0] for row in rows(curve_text.render(recorded()))] == ["1", "2", "3", "4", "6"]
    assert len(rows(curve_text.render(recorded(), every=True))) == 6


def test_a_row_gives_time_interval_verdict_and_repeats():
    shown = rows(curve_text.render(recorded()))
    assert " ".join(shown[0]) == "1 1 h 54 min to 1.1 h reliable 5"
    assert " ".join(shown[-1]) == "6 10 min 9 to 11 min doubtful"


def test_reasons_against_the_curve_are_reported():
    problems = (Problem("few_points", "only two node counts were seen", observe=8),)
    text = curve_text.render(recorded(verdict=Verdict.REFUSED, problems=problems))
    assert "verdict: refused" in text
    assert "only two node counts were seen; a run on 8 nodes would help most" in text


def test_one_run_alone_would_help_most():
    problems = (Problem("a", "one"), Problem("b", "two", 16), Problem("c", "three", 24))
    text = curve_text.render(recorded(problems=problems))
    assert "two; a run on 16 nodes would help most" in text
    assert text.count("would help most") == 1


def test_knee_and_end_of_scaling_are_reported_where_available():
    text = curve_text.render(recorded())
    assert "max S²/n): 4 nodes" in text
    assert "stops falling" not in text
    assert "stops falling at 6 nodes" in curve_text.render(recorded(max_useful=6))


def test_parsable():
    lines = (
        curve_text.curve_table(recorded(verdicts=()), Energy(), 0.0, every=True)
        .parsable()
        .split("\n")
    )
    assert lines[:2] == [
        "nodes|run time|at least|at most|verdict|kWh|cost|g CO2e|observed|runs there took",
        "1|3600|3240|3960|reliable||||1|3600",
    ]
    assert lines[-1].endswith("|reliable||||0|")


@pytest.mark.parametrize("observed", [(), (Point(2, 1.0), Point(16, 1.0))])
def test_summary_puts_the_best_recorded_first(observed):
    tables = [
        recorded(label="refused", key="a", verdict=Verdict.REFUSED, runs=99),
        recorded(label="few", key="b", runs=3, observed=observed),
        recorded(label="many", key="c", runs=50),
    ]
    lines = application_list.list_table(tables).text().splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["many", "few", "refused"]
    assert ("2-16" if observed else "-") in lines[2].split()


@pytest.mark.parametrize(
    ("fields", "largest", "most"),
    [
        ({"in_cluster": 4}, None, 4),
        ({"in_cluster": 4}, 5, 5),  # nimod's outlook is newer
        ({"in_cluster": 2}, None, 3),  # it ran on three
        ({"in_cluster": 4, "unit": Unit.CPUS}, 2, 4),  # of nodes
        ({}, None, 6),
    ],
)
def test_counts_beyond_the_cluster_are_left_out(fields, largest, most):
    cut = curve_text.within(recorded(**fields), largest)
    assert cut.nodes[-1] == most
    assert [len(one) for one in (cut.median_s, cut.high_s, cut.verdicts)] == [most] * 3


def test_the_list_has_the_counts_that_were_run_not_those_asked_for():
    tried = (Longest(2, 1800.0), Longest(4, 900.0))
    one = recorded(observed=(Point(8, 600.0),), longest=tried)
    _, line = application_list.list_table([one]).text().splitlines()
    assert "2-4" in line.split()
    assert entry_of(row_of(one), off=False).nodes == {2, 4}


def test_an_application_is_listed_once():
    """By its script and by its command line: the same runs."""
    line = recorded(label="ada/wrf", level="line", key="aaaaaaaaaa", runs=20)
    script = recorded(label="ada/wrf", level="script", key="bbbbbbbbbb", runs=12)
    assert len(application_list.list_table([line, script]).text().splitlines()) == 2
    elsewhere = recorded(
        label="ada/wrf", level="script", key="cc", runs=3, observed=(Point(64, 1.0), Point(99, 1.0))
    )
    assert len(application_list.list_table([line, elsewhere]).text().splitlines()) == 3


def test_an_application_with_a_tag_is_listed_by_it():
    tag = recorded(label="ada/wrf/d02", level="tag", key="ada/wrf/d02", last_s=5.0)
    line = recorded(label="ada/wrf", level="line", key="aaaaaaaaaa", last_s=5.0)
    assert [
        one.split()[0] for one in application_list.list_table([line, tag]).text().splitlines()[1:]
    ] == ["ada/wrf/d02"]
    newer = recorded(label="ada/wrf", level="line", key="aaaaaaaaaa", last_s=6.0)
    assert len(application_list.list_table([newer, tag]).text().splitlines()) == 3


def test_arguments_tell_applications_of_one_name_apart():
    one = recorded(label="ada/wrf", level="line", key="aaaaaaaaaa", command="wrf.sh d01.in")
    other = recorded(label="ada/wrf", level="line", key="bbbbbbbbbb", command="wrf.sh d02.in")
    text = application_list.list_table([one, other]).text()
    assert ["wrf.sh d01.in" in line for line in text.splitlines()].count(True) == 1
    assert "wrf.sh d02.in" in text
    assert "wrf.sh" not in application_list.list_table([one]).text()
    assert "aaaaaaaa" not in application_list.list_table([one]).text()


def test_keys_tell_apart_what_nothing_else_does():
    one = recorded(label="ada/wrf", level="script", key="aaaaaaaaaa", command="wrf.sh")
    other = recorded(label="ada/wrf", level="script", key="bbbbbbbbbb", command="wrf.sh")
    text = application_list.list_table([one, other]).text()
    assert "script aaaaaaaa" in text
    assert "script bbbbbbbb" in text


def test_layouts_tell_parts_apart_under_one_name():
    layout = Layout(tasks=8)
    part = Part(key="aa#part=1", layout=layout)
    whole = recorded(label="ada/wrf", key="aa", parts=(part,))
    own = recorded(label=f"ada/wrf ({layout})", key="aa#part=1", layout=layout)
    options = TableOptions(form="application,details", header=False)
    lines = sorted(
        " ".join(one.split())
        for one in application_list.list_table([whole, own]).text(options).splitlines()
    )
    assert lines == ["ada/wrf 8 tasks on each node", "ada/wrf all layouts"]


def test_columns_order_and_titles_can_be_chosen():
    tables = [recorded(label="few", key="a", runs=3), recorded(label="many", key="b", runs=50)]
    options = TableOptions(form="runs,application", sort="runs", header=False)
    assert [
        line.split() for line in application_list.list_table(tables).text(options).splitlines()
    ] == [["3", "few"], ["50", "many"]]
    options = TableOptions(form="runs", sort="-runs")
    assert application_list.list_table(tables).text(options).split() == ["runs", "50", "3"]
    assert application_list.list_table(tables).parsable(options) == "runs\n50\n3"


def test_a_list_of_long_names_fits_the_terminal():
    tables = [
        recorded(label=f"ada/{'long' * 20}", key=key, command=f"{'x' * 90} {key}") for key in "ab"
    ]
    text = application_list.list_table(tables).text(width=80)
    assert max(map(len, text.splitlines())) <= 80
    assert "+" in text


def test_the_record_that_earned_the_verdict_is_reported():
    text = curve_text.render(
        recorded(
            record=(
                Recorded(repeated=True, predictions=40, median_error=0.031, inside=36),
                Recorded(repeated=False, predictions=1, median_error=0.2, inside=1),
            )
        ),
        width=200,
    )
    assert (
        "the last 40 predictions on node counts that ran before: half off by 3 % or less, 36 inside"
    ) in text
    assert "the last prediction on new node counts: off by 20 %, inside" in text


def test_memory_is_reported_with_its_record():
    need = MemoryNeed(9, 8, 7, 0.0, (Memory(2, 3000 << 20), Memory(4, 2000 << 20)))
    shown = curve_text.render(recorded(need=need), width=200)
    assert "memory that a node may need: 3000 MiB, enough for 7 of 8 runs" in shown
    sized = curve_text.render(recorded(need=need, unit=Unit.CPUS), width=200)
    assert "memory that the job may need: 3000 MiB" in sized
    assert "memory" not in curve_text.render(recorded(), width=200)


def test_use_of_cpus_stands_with_its_record():
    use = ResourceUse(Unit.CPUS, 0.62, 0.4, 0.7, runs=12, predictions=9, inside=8)
    shown = " ".join(curve_text.render(recorded(uses=(use,)), width=200).split())
    assert (
        "runs use 62 % of their CPUs (nine in ten use 40 % to 70 %; 8 of 9 runs were inside"
        in shown
    )


def test_memory_of_a_node_is_also_that_of_its_tasks():
    need = MemoryNeed(5, 4, 4, high=(Memory(2, 800 * 2**20),))
    shown = " ".join(curve_text.render(recorded(need=need, layout=Layout(4, 4)), width=200).split())
    assert "800 MiB (200 MiB for each of 4 tasks), enough for 4 of 4 runs" in shown
    once = curve_text.memory_lines(recorded(need=replace(need, predictions=1, inside=0)))
    assert "enough for 0 of 1 run (" in once[0]


def test_what_another_count_does_stands_apart_from_what_jobs_on_it_took():
    larger = (Point(1, 3600.0, 5), Point(2, 7200.0, 2))
    text = curve_text.render(recorded(change=change_of((), Unit.NODES), observed=larger))
    assert "predicted run times of jobs that ask for 1 node, on other counts\n" in text
    learnt = replace(change_of((), Unit.NODES), ranges=(AskedRange(1, 8, 8, (4, 6, 8), 2),))
    tried = curve_text.render(recorded(change=learnt, observed=larger))
    assert "on other counts\nlearnt on 4, 6 and 8 nodes\n" in tried
    nodes, time, unit, *_, as_asked, hours, _ = next(row for row in rows(text) if row[0] == "2")
    assert (nodes, as_asked, hours) == ("2", "2", "h")
    assert (float(time) < 60, unit) == (True, "min")
    assert "runs there took" not in curve_text.render(recorded())


def test_at_length_the_engine_is_named_and_what_differs_from_run_to_run():
    rule = recorded(level="tag", key="ada/snakemake:align", label="ada/snakemake:align")
    dated = recorded(label="ada/run_*", command="run.sh *.dat")
    engine, star = (
        "workflow engine: snakemake, process or rule: align",
        "*: differs from run to run",
    )
    for one, said in ((rule, engine), (dated, star)):
        assert said in curve_text.render(one, verbose=True)
        assert said not in curve_text.render(one)
    assert engine not in curve_text.render(recorded(level="tag", key="ada/wrf"), verbose=True)
