"""Eighty columns hold in the tables of all commands, whatever names users give."""

from dataclasses import replace

import pytest

from predictor.forecasts.forecasters import SeriesForecast
from predictor.occupancy.active.space import Space
from predictor.types import Verdict
from sacct_ingest.probes.agreement import MEASURES, type_profiles
from sacct_ingest.records import NodeProfile, Probe, Resource
from slurm_plugin.evaluation.diagnoses import Waste
from slurm_plugin.experiments import (
    forecast_command,
    learn_command,
    plan_command,
    probe_command,
    profile_command,
)
from slurm_plugin.experiments.learn.description import Assignment, Choices
from slurm_plugin.experiments.learn.proposers import Expected, ProposerState
from slurm_plugin.experiments.plan.plans import plans
from slurm_plugin.protocol.advice_messages import Advice, PartitionRow
from slurm_plugin.protocol.reasons import WORDS
from slurm_plugin.protocol.status_messages import WaitRow
from slurm_plugin.reports import replay_text, sheets, terminal
from slurm_plugin.reports.headline import headline
from slurm_plugin.reports.queue_table import queue_table
from slurm_plugin.text.table_columns import WIDTH, TableOptions
from tests.slurm_plugin.experiments.plan.made import NOW, problem
from tests.slurm_plugin.reports.rows import AT_S, advised, decision, run, summarise
from tests.slurm_plugin.reports.test_replay_text import replayed, report_of

NAME = "a-name-without-end-" * 10
DAYS_S = 864_000.0


def printed(parts):
    return "\n".join(parts)


def report():
    pairs = [(decision(label=NAME, user=NAME, account=NAME), run(elapsed_s=1250.0))] * 4
    made = summarise(pairs, confidence=0.9)
    yield printed(terminal.render(made, WORDS))
    for one in sheets.sheets_of(made, WORDS):
        yield one.text()


def replay():
    yield printed(replay_text.render(report_of(replayed())))


def forecast():
    made = SeriesForecast(
        resource=Resource.DISK_LATENCY,
        source=NAME,
        target=NAME,
        measured=20_000,
        failed=1,
        last=123.456,
        last_s=AT_S,
        value=123.456,
        low=0.0012345,
        high=123.456,
        by="exponential smoothing 0.05",
        nmae=1.2,
    )
    yield forecast_command.series_table([made]).text()


def probe():
    value = Probe(resource=Resource.DISK_LATENCY, source=NAME, target=NAME, at_s=AT_S, value=1.0)
    failed = Probe(resource=Resource.CPU, source="n1", at_s=AT_S, error=NAME)
    yield probe_command.probe_table([value, failed]).text()


def profiles():
    measured = dict.fromkeys(MEASURES, 123_456_789.0)
    return [
        NodeProfile(cluster="pine", node=f"{NAME}{n}", node_type=NAME, at_s=AT_S, **measured)
        for n in range(3)
    ]


def profile():
    rows = profiles()
    yield profile_command.describe(rows, type_profiles(rows))


def two_plans():
    text = (
        f"storages: {{s: {{path: /s}}}}\nplaces: {{p: {{storage: s, partition: {NAME}}}}}\n"
        f"tasks: {{{NAME}: {{command: x, run_time: {{1: 20min}}}}}}\n"
    )
    made = plans(problem(text))
    return [made[0], made[0]]


def plan():
    yield "\n".join(plan_command.render(two_plans(), NOW, NOW + 1.0))


def learnt():
    names = {f"an_attribute{n}": 1.0 for n in range(12)}
    one = Expected(
        attributes=names,
        time_s=10 * DAYS_S,
        low_s=DAYS_S,
        high_s=20 * DAYS_S,
        verdict=Verdict.DOUBTFUL,
    )
    state = ProposerState(functions={}, effects={}, error=3.0, expected=(one,))
    other = dict.fromkeys(names, 2.0)
    space = Space((names, other), dict.fromkeys(names, True))
    known = Choices(space, {space.key(names): (Assignment(1, (), (), names, "k"),)})
    return state, known


def learn():
    state, known = learnt()
    yield learn_command.summary(state, 6, 1.0, "the predictions are good enough", known)


def wait():
    row = WaitRow(
        job_id=2**31,
        array_id=2**31,
        tasks=1000,
        user=NAME,
        name=NAME,
        partition=NAME,
        nodes=10_000,
        reason=NAME,
        start_s=AT_S,
        low_s=AT_S,
        high_s=AT_S,
        slurm_start_s=AT_S,
    )
    yield queue_table([row]).text()


def advise():
    row = PartitionRow(
        partition=NAME,
        node_type=NAME,
        nodes=10_000,
        time_s=DAYS_S,
        low_s=DAYS_S,
        high_s=DAYS_S,
        wait_s=DAYS_S,
        runs=100_000,
        verdict="doubtful",
    )
    yield advised(Advice(application=NAME, runs=3, partitions=[row]), now_s=AT_S)


@pytest.mark.parametrize(
    "tables", [report, replay, forecast, probe, profile, plan, learn, wait, advise]
)
def test_no_line_is_longer_or_ends_in_spaces(tables):
    for text in tables():
        assert [line for line in text.splitlines() if line != line.rstrip()] == []
        # A name alone is a line of its own, which nothing can break.
        long = [line for line in text.splitlines() if len(line) > WIDTH and " " in line.strip()]
        assert long == []


def test_a_long_name_leaves_the_figures_beside_it():
    (text, *_) = report()
    line = next(line for line in text.splitlines() if line.startswith(NAME[:20]))
    assert "+" in line
    assert line.split()[1:5] == ["4", "4", "4", "4"]


def test_a_folded_line_stays_indented():
    made = summarise([(decision(), run(elapsed_s=1250.0))], confidence=0.9)
    waste = Waste(
        user="ada",
        application="wrf",
        runs=100,
        nodes=(16, 32),
        node_hours=4000.0,
        wasted_node_hours=2000.0,
        knee=8,
        efficiency=0.5,
        slower=1.25,
    )
    made = replace(made, waste=[waste])
    # The count is that of advice, which a knee is not.
    to_do = " ".join(task.text for task in headline(made).tasks)
    assert "take as many nodes for wrf as 'nimo-advise' says: " in to_do
    text = printed(terminal.render(made, WORDS))
    _, _, below = text.partition("Beyond the knee\n")
    lines = below.splitlines()[:2]
    assert [line[:2] for line in lines] == ["  ", "  "]
    assert max(map(len, lines)) <= WIDTH


def test_columns_and_order_are_the_users():
    results = [replayed(), replayed()]
    made = report_of(*results)
    asked = TableOptions(form="load,worse_by%9", sort="-load", header=False)
    lines = printed(replay_text.render(made, asked)).splitlines()
    assert lines[2].split() == [f"{results[0].load:.2f}", f"{results[0].everybody.worse_by:.6g}"]
    lines = replay_text.setting_table(made).parsable(TableOptions(form="price,guard"))
    header, *rows = lines.split("\n")
    assert (header, len(rows)) == ("price|guard", 2)
    rows = [Probe(resource=Resource.CPU, source=name, at_s=AT_S, value=0.5) for name in "ab"]
    asked = TableOptions(form="source", sort="-source", header=False)
    assert probe_command.probe_table(rows).text(asked).split() == ["b", "a"]
