"""The loop of ``nimo lab learn`` where Slurm misbehaves: failures, budgets, kills."""

from __future__ import annotations

import json
import re
import subprocess
from contextlib import nullcontext
from dataclasses import asdict
from enum import StrEnum
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import yaml
from msgspec import structs

from predictor.occupancy.active.settings import FunctionForm, LearnerSettings
from predictor.types import Verdict
from sacct_ingest.errors import ConfigError, FormatError, NimoError, SlurmError
from sacct_ingest.files.atomic_file import alone
from sacct_ingest.records import JobState, NodeProfile, StepRun
from slurm_plugin.experiments import held_jobs
from slurm_plugin.experiments import learn_command as words
from slurm_plugin.experiments.campaign import spent
from slurm_plugin.experiments.held_jobs import overrun_s
from slurm_plugin.experiments.learn.description import (
    Assignment,
    Journal,
    ModelChoices,
    Stage,
    Trial,
    choices,
    parse,
)
from slurm_plugin.experiments.learn.proposers import ByOccupancies, sample
from slurm_plugin.experiments.learn.workbench import RunCommands, Stop, Workbench
from tests.slurm_plugin.experiments.fake_slurm import FakeSlurm, Killed, campaign, cuts
from tests.slurm_plugin.experiments.odd_values import ODD, with_value
from tests.slurm_plugin.reports.rows import run as job_of

TEXT = """\
application: blast
command: blast -t {share}
limit: "60"
budget: 100
assignments:
  - {constraint: old, variables: {share: [10, 20, 40, 80]}, attributes: {speed: 1}}
  - {constraint: new, variables: {share: [10, 20, 40, 80]}, attributes: {speed: 2}}
  - {constraint: newer, variables: {share: [10, 20, 40, 80]}, attributes: {speed: 2}}
learning: {target: 5, fewest: 4, in_a_row: 1, error: cross-validation}
"""


def slurm_of(time_of, fails=lambda _argv, _attempt: None, refuses=(), **more):
    """Slurm where jobs take as long as their attributes say."""

    def outcome(slurm, argv):
        if any(f"--constraint={one}" in argv for one in refuses):
            return "sbatch: error: Invalid feature specification"
        trial = slurm.bench.journal.trials[name_of(argv)]
        state, elapsed_s = (
            fails(trial, trial.attempt) or JobState.COMPLETED,
            time_of(trial.attributes),
        )
        step = StepRun(
            step="batch", state=state, cpu_s=0.5 * elapsed_s, disk_read_bytes=10**8,
            disk_write_bytes=0,
        )  # fmt: skip
        return job_of(
            job_id=len(slurm.jobs) + 1, submit_s=trial.planned_s, state=state, elapsed_s=elapsed_s,
            nodes=1, cpus=1, steps=(step,), exit_code=3,
        )  # fmt: skip

    return FakeSlurm(outcome, **more)


def name_of(argv):
    """Assignment and attempt in the name of a job."""
    name = next(word for word in argv if word.startswith("--job-name="))
    *_, key, attempt = name.split("-")
    return key, int(attempt)


def speed(attributes):
    return 100.0 * 80 / (attributes["share"] * attributes["speed"])


class Counted(RunCommands):
    """Runs of which the nodes counted a quarter of the time for I/O on the network."""

    def network_share(self, trial):
        return 0.25


def bench(slurm, state, text=TEXT):
    given = parse(text, name="app.yaml")
    chosen = made(given)
    slurm.bench = Workbench(
        description=given,
        choices=chosen,
        proposer=ByOccupancies(chosen.space, given.learning, ModelChoices()),
        journal=Journal(state, given.application),
        commands=Counted(given),
        overrun_s=0.0,
    )
    return slurm.bench


def followed(slurm, state, text=TEXT):
    return campaign(bench(slurm, state, text), slurm).follow()


def made(given, profiles=()):
    return choices(given, lambda _: profiles, name="app.yaml", folder=Path("/data"))


@pytest.fixture
def state(tmp_path):
    return tmp_path / "app.learn.json"


def test_it_learns_and_stops(state):
    slurm = slurm_of(speed)
    assert followed(slurm, state) == Stop.GOOD_ENOUGH
    assert len(slurm.jobs) < 8
    again = bench(slurm, state)
    assert again.next(0.0) == Stop.GOOD_ENOUGH
    learned, choices = again.proposer.learned(), again.choices
    for one in learned.expected:
        assert one.time_s == pytest.approx(speed(one.attributes), rel=0.1)
    assert "reliable" in words.summary(learned, 6, 1.0, "good enough", choices)
    *_, best, argv, _ = words.next_steps(learned.expected, choices, again.description).splitlines()
    fastest = min(learned.expected, key=lambda one: one.time_s)
    nodes = choices.at(fastest.attributes)[0].nodes
    assert best.endswith(f"{fastest.time_s * nodes / 3600:.3g} node-hours")
    assert argv.startswith("sbatch --time=60 --comment=nimo:app=blast --nodes=")


@pytest.mark.parametrize(
    ("time_of", "verdicts"),
    [
        (speed, {Verdict.RELIABLE}),
        (lambda a: 10.0 * a["speed"] if a["share"] in (10, 40) else 100.0, {Verdict.REFUSED}),
    ],
)
def test_only_narrow_intervals_are_reliable(state, time_of, verdicts):
    """As narrow as it asks of all of them together before it stops: 2.3 times the target."""
    slurm = slurm_of(time_of)
    learning = bench(slurm, state, TEXT.replace("target: 5", "target: 10"))
    campaign(learning, slurm).follow()
    assert {one.verdict for one in learning.proposer.learned().expected} == verdicts


def test_killed_at_any_moment_it_goes_on_and_runs_nothing_twice(tmp_path):
    whole = slurm_of(speed)
    followed(whole, tmp_path / "whole")
    # Each run takes seven calls, so that steps of three meet all of them.
    for moment in range(1, whole.calls + 1, 3):
        state = tmp_path / f"{moment}"
        slurm = slurm_of(speed, kill_at=moment)
        with pytest.raises(Killed):
            followed(slurm, state)
        assert followed(slurm, state) == Stop.GOOD_ENOUGH
        assert [name_of(one.argv) for one in slurm.jobs.values()] == [
            name_of(one.argv) for one in whole.jobs.values()
        ]
        assert not slurm.left


def test_the_budget_is_never_exceeded_whatever_the_runs_take(state):
    slurm = slurm_of(lambda _: 3600.0)
    learning = bench(slurm, state, TEXT.replace("budget: 100", "budget: 3.5"))
    assert campaign(learning, slurm).follow() == Stop.BUDGET
    assert spent(learning.runs) == pytest.approx(3.0)
    requested = learning.proposer.propose()
    assert requested is not None
    assert learning.reserved_node_h(requested) == pytest.approx(1.0)  # 0.5 are left


def test_where_slurm_refuses_another_assignment_stands_in(state):
    slurm = slurm_of(speed, refuses=frozenset({"new"}))
    learning = bench(slurm, state)
    assert campaign(learning, slurm).follow() == Stop.GOOD_ENOUGH
    refused = [one for one in learning.journal.trials.values() if one.stage is Stage.FAILED]
    assert refused and "Invalid feature" in refused[0].reason
    shown = words.next_steps(learning.learned().expected, learning.runnable(), learning.description)
    assert "--constraint=newer " in shown and "--constraint=new " not in shown


def test_an_assignment_that_fails_everywhere_is_left_out(state):
    # The slowest one, that is the reference.
    def fails(trial, attempt):
        slow = trial.attributes["share"] == 10 and trial.attributes["speed"] == 1
        return JobState.FAILED if slow else None

    slurm = slurm_of(speed, fails=fails)
    learning = bench(slurm, state)
    assert campaign(learning, slurm).follow() != Stop.BUDGET
    failed = [one for one in learning.journal.trials.values() if one.stage is Stage.FAILED]
    assert [one.reason for one in failed] == ["FAILED, exit status 3"]
    assert learning.next(0.0) in {Stop.GOOD_ENOUGH, Stop.NOTHING_LEFT}


def test_a_run_that_is_in_no_accounting_ends_learning_and_says_so(state):
    slurm = slurm_of(speed)
    slurm.ended = lambda planned_s: {}
    with pytest.raises(SlurmError, match="see 'sacct -j 1'"):
        followed(slurm, state)


def test_an_interrupted_run_is_run_again_but_not_for_ever(state):
    slurm = slurm_of(speed, fails=lambda _, attempt: JobState.NODE_FAIL if attempt == 0 else None)
    assert followed(slurm, state) == Stop.GOOD_ENOUGH
    slurm = slurm_of(speed, fails=lambda _one, _attempt: JobState.NODE_FAIL)
    learning = bench(slurm, state.with_name("other"))
    assert campaign(learning, slurm).follow() == Stop.NOTHING_LEFT
    assert len(slurm.jobs) == 2 * 12  # two tries of twelve assignments


def test_a_run_that_does_not_start_is_cancelled(state):
    slurm = slurm_of(speed, starts=lambda _: "Priority")
    learning = bench(slurm, state, f'{TEXT}patience: "30"\n')
    assert campaign(learning, slurm).follow() == Stop.NOTHING_LEFT
    assert {one.row.state for one in slurm.jobs.values()} == {JobState.CANCELLED}
    assert {one.reason for one in learning.journal.trials.values()} == {"did not start within 30"}


def test_one_process_at_a_time(state):
    only = partial(alone, state, program="'nimo lab learn'", fix="name another file with --state")
    with only(), pytest.raises(NimoError, match="another"), only():
        pass


def test_a_journal_of_something_else_is_refused(state):
    followed(slurm_of(speed), state)
    with pytest.raises(FormatError, match="another file with --state"):
        Journal(state, "other")
    for data in cuts(state.read_bytes()):
        state.write_bytes(data)
        at = rf"app\.learn\.json: cut off at byte {len(data)}; move it away"
        with pytest.raises(FormatError, match=at):
            Journal(state, "blast")


def test_latencies_of_profiles_are_slower_the_more_they_are():
    """More of them counted as faster, so that the slowest assignment was taken for the fastest."""
    text = TEXT.replace("attributes: {speed: 1}", "attributes: {speed: 1, mem_latency_s: 1.0e-8}")
    text = text.replace("attributes: {speed: 2}", "attributes: {speed: 2, mem_latency_s: 3.0e-8}")
    better = made(parse(text, name="app.yaml")).space.more_is_better
    assert better == {"mem_latency_s": False, "share": True, "speed": True}


def test_profiles_of_nodes_are_attributes():
    text = TEXT.replace("attributes: {speed: 1}", "partition: a")
    text = text.replace("attributes: {speed: 2}", "")
    given = parse(f"{text}profile: [cpu_events_per_s]\n".replace(", }", "}"), name="app.yaml")
    figures = iter((900.0, 1800.0, 1800.0))
    node = partial(NodeProfile, cluster="", node="n", node_type="", at_s=0)

    def profiles(_):
        return [node(cpu_events_per_s=next(figures))]

    result = choices(given, profiles, name="app.yaml", folder=Path())
    assert result.space.levels("cpu_events_per_s") == [900.0, 1800.0]
    assert len(result.at({"share": 10.0, "cpu_events_per_s": 1800.0})) == 2


@pytest.mark.parametrize("value", ODD, ids=repr)
def test_an_odd_value_anywhere_is_read_or_refused_with_the_file(value):
    for place, text in with_value(TEXT, value):
        try:
            made(parse(text, name="app.yaml"))
        except ConfigError as error:
            assert str(error).startswith("app.yaml: "), place


@pytest.mark.parametrize(
    ("old", "new", "reported"),
    [
        ("-t {share}", "-t 4", "the command never uses {share}"),
        ("{constraint: old", "{nodes: 2, tasks: 1", "of 2 nodes Slurm gives 1 to 1 tasks"),
        ("limit:", "limits:", "limits: unknown key; did you mean 'limit'?"),
        ('"60"', "soon", "limit: 'soon' is no time"),
        ("command: blast -t {share}", "", "give either command or script"),
        ("attributes: {speed: 1}", "cpus: 2", "cpus is given for some assignments only"),
        ("budget: 100", "budget: 0", "budget: "),
        ("attributes: {speed: 1}", "inputs: [x]", "assignments[0].inputs: 'x' is not among inputs"),
        ("target: 5", "parts: []", "learning: parts: "),
        ("{constraint: old,", "{nodes: [],", "assignments[0].nodes: "),
        ("[10, 20, 40, 80]", "[10, .inf]", "app.yaml: assignments: attribute share of an assign"),
        ("target: 5", "attributes: {disk: [cpus]}", "'cpus' does not differ here; share, speed do"),
    ],
)  # fmt: skip
def test_a_wrong_description_says_where(old, new, reported):
    with pytest.raises(ConfigError, match=r"app\.yaml") as caught:
        made(parse(TEXT.replace(old, new), name="app.yaml"))
    assert reported in str(caught.value)


def test_no_budget_can_be_met_where_no_limit_holds():
    assert overrun_s({"OverTimeLimit": "0 min", "KillWait": "30 sec"}) == 90.0
    with pytest.raises(SlurmError, match="OverTimeLimit"):
        overrun_s({"OverTimeLimit": "UNLIMITED"})


@pytest.mark.parametrize(
    "chosen",
    [
        *("reference: min", "reference: rand", "reference: max"),
        "{order: domain, parts: [disk, compute, network]}",
        "{attribute_order: domain, attributes: {compute: [speed, share]}}",
        *("traversal: round robin", "traversal: improvement", "traversal: dynamic"),
        *("selection: Lmax-I1", "selection: L2-I2", "selection: informative"),
        *("error: ahead", "error: cross-validation"),
        *("error: random test set", "error: Plackett-Burman test set"),
    ],
)
def test_every_alternative_of_the_paper_s_table_1_can_be_chosen(state, chosen):
    learning = {"selection": "Lmax-I1", "target": 5.0, "test_runs": 3, **yaml.safe_load(chosen)}
    text = f"{TEXT.partition('learning:')[0]}learning: {json.dumps(learning)}"
    slurm = slurm_of(speed)
    workbench = bench(slurm, state, text)
    assert campaign(workbench, slurm).follow() != Stop.BUDGET
    assert len(workbench.proposer.learned().expected) == 8
    settings = parse(text, name="app.yaml").learning
    reported = {name: getattr(settings, name) for name in learning}
    assert json.loads(json.dumps(reported)) == learning
    purposes = [one.purpose for one in workbench.runs]
    assert purposes.count("test") == (3 if "test set" in learning.get("error", "") else 0)


TRIAL = Trial(
    key="k", attempt=0, job_name="run 1", nodes=1, limit_s=1, attributes={}, purpose="", why="",
    planned_s=0,
)  # fmt: skip


def jobs(counters):
    return RunCommands(parse(TEXT, name="app.yaml"), counters=counters)


def assigned(*command):
    return Assignment(1, (), command, {}, "k")


@pytest.mark.parametrize("status", [0, 3])
def test_the_node_s_counters_are_read_before_and_after_and_the_status_remains(tmp_path, status):
    own = jobs(tmp_path)
    wrapped = own.argv(assigned(f"--wrap=cat <<END\nhello\nEND\nexit {status}"), TRIAL)[-1]
    script = wrapped.removeprefix("--wrap=")
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("hello\n", status)
    assert {one.name for one in tmp_path.iterdir()} == {"run 1.before", "run 1.after"}
    assert "= diskstats" in (tmp_path / "run 1.after").read_text()


def test_where_the_counters_cannot_be_written_the_run_is_the_same(tmp_path):
    own = jobs(tmp_path / "not there")
    script = own.argv(assigned("--wrap=echo hello"), TRIAL)[-1].removeprefix("--wrap=")
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("hello\n", 0)
    assert own.network_share(TRIAL) is None


def test_a_run_on_another_cluster_is_refused(monkeypatch):
    monkeypatch.setattr(held_jobs, "slurm_config", lambda: {"ClusterName": "pine"})
    for cluster, refused in (("oak", True), ("pine,oak", True), ("pine", False)):
        options = Assignment(1, (f"--clusters={cluster}",), ("--wrap=true",), {}, "k")
        argv = jobs(None).argv(options, TRIAL)
        with pytest.raises(ConfigError, match=cluster) if refused else nullcontext():
            held_jobs.check_here(argv)


def test_a_job_script_and_a_share_as_given_are_left_as_they_are(tmp_path):
    assert jobs(tmp_path).argv(assigned("job.sh", "arg"), TRIAL)[-2:] == ["job.sh", "arg"]
    assert jobs(None).argv(assigned("--wrap=echo"), TRIAL)[-1] == "--wrap=echo"
    assert jobs(None).network_share(TRIAL) is None


def test_what_was_counted_becomes_the_network_s_share(tmp_path):
    head = "device a:/b mounted on /b with fstype nfs\n\tper-op statistics\n"
    end = "\n= diskstats\n= io.stat\n"
    (tmp_path / "run 1.before").write_text(head + end)
    reported = head + "GETATTR: 10 10 0 0 0 0 20 20\nREAD: 50 50 0 0 0 0 400 400" + end
    (tmp_path / "run 1.after").write_text(reported)
    assert jobs(tmp_path).network_share(TRIAL) == pytest.approx(120 / 420)


PAGE = Path(__file__).parents[4] / "docs" / "learning.md"
ROW = re.compile(r"^\| `(\w+)` \| (.+?) \| ?(.*?) ?\| .+ \|$", re.MULTILINE)


def _text(value):
    if isinstance(value, tuple):
        return f"[{', '.join(value)}]"
    return f"{value:g}" if isinstance(value, float) else str(value)


@pytest.mark.parametrize(("read", "flow"), [(10**8, 2.0**30), (2 * 10**8, 2e8)])
def test_bytes_far_below_the_size_of_the_input_are_no_data_flow_in_the_paper_s_form(read, flow):
    one = structs.replace(TRIAL, elapsed_s=9.0, data_bytes=read, attributes={"input_bytes": 2**30})
    paper = ModelChoices(form=FunctionForm.PAPER)
    assert sample(one, one, paper).measured.data_bytes == flow
    assert sample(one, one, ModelChoices()).measured.data_bytes == read


BY_SIZE = """\
application: shared
command: shared {input}
limit: "60"
budget: 1000
inputs: [{name: a, size: 1G}, {name: b, size: 2G}, {name: c, size: 4G}, {name: d, size: 8G}]
assignments: [{nodes: [1, 2, 4], cpus: [1, 2, 4], inputs: [a, b, c, d]}]
"""


def shared_out(attributes):
    """Seconds of 3 + 16 λ/(n c), of which no run of the accounting's bytes says anything."""
    gib = attributes["input_bytes"] / 2**30
    return 3 + 16 * gib / attributes["nodes"] / attributes["cpus"]


def test_a_law_of_four_coefficients_is_known_after_nine_of_36_runs_and_the_choice_is_shown(state):
    slurm = slurm_of(shared_out)
    learning = bench(slurm, state, BY_SIZE)
    assert campaign(learning, slurm).follow() in {Stop.GOOD_ENOUGH, Stop.SETTLED}
    assert len(learning.runs) <= 9
    learned = learning.learned()
    off = [abs(one.time_s / shared_out(one.attributes) - 1) for one in learned.expected]
    assert len(off) == 36
    assert max(off) < 0.05
    text = words.summary(learned, 9, 0.1, "good enough", learning.runnable(), width=200)
    assert re.search(r"data flow: \S.* \(\d\.\d %\); not .*input_bytes.*none \(\d", text)
    assert re.search(r"form: .*\(\d+\.\d %\)", text)
    assert "data profile: input_bytes\n" in text
    assert re.search(r"the measured order \(OPD\), RD\(1\) 0\.\d\d, RD\(3\) 0\.\d\d", text)
    assert json.loads(json.dumps(asdict(learned)))["chosen"]["data_profile"] == ["input_bytes"]


def test_runs_that_differ_more_than_the_target_end_when_they_change_little(state):
    rng = np.random.default_rng(8)
    slurm = slurm_of(lambda a: shared_out(a) * float(rng.lognormal(0, 0.15)))
    learning = bench(
        slurm, state, BY_SIZE.replace("budget: 1000", "budget: 1000\nlearning: {target: 5}")
    )
    assert campaign(learning, slurm).follow() == Stop.SETTLED
    assert len(learning.runs) < 36


def test_the_page_has_every_setting_with_its_default_and_the_other_choices():
    rows = {
        name: (default.strip("`"), set(re.findall(r"`([^`]+)`", also)))
        for name, default, also in ROW.findall(PAGE.read_text())
        if name in LearnerSettings.__struct_fields__
    }
    expected = LearnerSettings()
    for name in LearnerSettings.__struct_fields__:
        default = getattr(expected, name)
        reported, also = rows[name]
        assert reported == _text(default)
        if isinstance(default, StrEnum):
            assert {reported, *also} == {one.value for one in type(default)}
