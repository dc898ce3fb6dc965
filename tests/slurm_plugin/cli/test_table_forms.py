"""Over the demo's data all forms of a table have the same columns and raw values."""

import time
from argparse import Namespace

import pytest

from predictor.forecasts.transfer_time import TransferTime
from sacct_ingest.probes.agreement import type_profiles
from sacct_ingest.records import Probe, Resource
from sacct_ingest.store import DecisionSelection
from slurm_plugin.cli.command_context import load_config
from slurm_plugin.evaluation import report_data, waste_data
from slurm_plugin.experiments import learn_command, plan_command, profile_command
from slurm_plugin.experiments.forecast_command import series_table
from slurm_plugin.experiments.probe_command import probe_table
from slurm_plugin.experiments.scale import results
from slurm_plugin.experiments.transfer_command import transfer_table
from slurm_plugin.protocol.advice_messages import Advice, LayoutRow, PartitionRow
from slurm_plugin.protocol.reasons import WORDS
from slurm_plugin.protocol.status_messages import WaitRow
from slurm_plugin.reports import (
    advice_text,
    application_list,
    curve_text,
    replay_text,
    sheets,
    waste_text,
)
from slurm_plugin.reports.queue_table import queue_table
from slurm_plugin.store_access import load_tables, open_store
from slurm_plugin.stored_advice.advise import advise_usual
from slurm_plugin.text.table_columns import Column, Table
from tests.slurm_plugin.experiments.plan.made import NOW
from tests.slurm_plugin.experiments.test_scale import FAILURES, knee, slurm_of, studied
from tests.slurm_plugin.reports import test_eighty_columns as rows
from tests.slurm_plugin.reports.rows import AT_S, decision, run, summarise
from tests.slurm_plugin.reports.test_replay_text import replayed, report_of
from tests.slurm_plugin.table_forms import check_all_forms


@pytest.fixture
def config(use):
    return load_config(Namespace(config=use.config, store=""))


def test_of_applications_and_advice(config):
    with open_store(config) as store:
        tables = load_tables(store)
        made = [advise_usual(store, one, config, now_s=time.time()) for one in tables]
    check_all_forms(application_list.list_table(tables))
    for one in tables[:5]:
        check_all_forms(curve_text.curve_table(one, config.energy, 0.0, every=True))
    advised = [found[1] for found in made if found and found[1].rows]
    assert advised
    for advice in advised:
        check_all_forms(advice_text.scripts_table(advice, now_s=AT_S))


def test_of_places_and_layouts():
    shared = {"time_s": 60.0, "low_s": 50.0, "high_s": 70.0, "verdict": "doubtful", "own": True}
    places = [
        PartitionRow(partition="=b|x", nodes=4, wait_s=9.0, end_high_s=90.0, runs=3, **shared),
        PartitionRow(partition="c"),
    ]
    layouts = [LayoutRow(layout="2 tasks", options="-n 2", size=2, size_hours=0.1, **shared)]
    advice = Advice(application="wrf", partitions=places, layouts=layouts)
    check_all_forms(advice_text.places_table(advice, now_s=AT_S))
    check_all_forms(advice_text.layouts_table(advice))


def test_of_experiments(tmp_path, monkeypatch):
    plans, profiles, (learnt, choices) = rows.two_plans(), rows.profiles(), rows.learnt()
    (tmp_path / "job.sh").write_text("#!/bin/sh\n")
    monkeypatch.chdir(tmp_path)
    study = studied(tmp_path, slurm_of(knee, FAILURES["memory"][0]))
    for one in (
        plan_command.steps_table(plans[0], NOW),
        plan_command.plans_table(plans, NOW),
        learn_command.assignments_table(learnt.expected, choices),
        profile_command.profile_table(profiles),
        profile_command.types_table(profiles, type_profiles(profiles)),
        results.table(results.results_of(study)),
    ):
        assert one.rows
        check_all_forms(one)


def test_of_the_report(config):
    with open_store(config) as store:
        stored = report_data.collect(store, DecisionSelection(), config=config)
        tables = [*sheets.sheets_of(stored, WORDS)]
    decided = summarise(
        [
            (decision(given_limit_s=1200), run(elapsed_s=1250.0, limit_s=1200)),
            (decision(user="=cmd|x", label="a|b"), run(job_id=8)),
        ],
        confidence=0.9,
    )
    tables += sheets.sheets_of(decided, WORDS)
    assert len({one.name for one in tables if one.rows}) >= 8
    for one in tables:
        check_all_forms(one)


@pytest.mark.parametrize("by", ["user", "account", "application", "partition"])
def test_of_waste(config, by):
    with open_store(config) as store:
        made = waste_data.collect(store, DecisionSelection(), table_of=lambda _: None, by=by)
    check_all_forms(waste_text.causes(made))
    check_all_forms(waste_text.groups(made))


def test_of_all_else():
    row = WaitRow(job_id=7, user="ada", name="a|b", partition="batch", nodes=2, reason="Priority",
                  start_s=AT_S, low_s=AT_S, high_s=None, slurm_start_s=None)  # fmt: skip
    probes = [
        Probe(resource=Resource.LATENCY, source="n1", target="n2", at_s=AT_S, value=0.001),
        Probe(resource=Resource.CPU, source="=n1", at_s=AT_S, error="gone"),
    ]
    tables = [
        queue_table([row]),
        probe_table(probes),
        series_table([]),
        transfer_table(TransferTime(source="a", target="b", size_bytes=10.0)),
        *replay_text.tables(report_of(replayed())),
    ]
    for one in tables:
        check_all_forms(one)


def test_two_columns_of_one_title_are_found():
    twice = [Column("low", "at least", lambda _: 1), Column("wait_low", "at least", lambda _: 2)]
    with pytest.raises(AssertionError):
        check_all_forms(Table(twice, [None]))
