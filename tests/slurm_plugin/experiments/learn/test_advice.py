"""From `nimo lab learn` to a submission: predictions from learned runs."""

import random
from types import SimpleNamespace

import pytest
from msgspec import structs

from predictor.refit import refit
from predictor.stored_table import whole_key
from sacct_ingest.records import JobState
from sacct_ingest.scripts.signature import words_of_line
from sacct_ingest.store import Store
from slurm_plugin.config.setting_types import Mode
from slurm_plugin.decision.lookup import PredictionLookup
from slurm_plugin.experiments import learn_command
from slurm_plugin.experiments.learn.workbench import RunCommands
from slurm_plugin.protocol.request_messages import HookLevel
from tests.engine_jobs import job_of
from tests.sacct_ingest.records import SUBMIT_S, run
from tests.slurm_plugin.decision.submitting import advisor
from tests.slurm_plugin.experiments.fake_slurm import campaign
from tests.slurm_plugin.experiments.learn.test_workbench import bench, slurm_of
from tests.slurm_plugin.made import NOW

TEXT = """\
application: blast
command: blast -t $SLURM_CPUS_PER_TASK {input}
limit: "60"
budget: 100
inputs: [{name: "1", size: 1G}, {name: "2", size: 2G}, {name: large, size: 4G}]
assignments: [{cpus: [1, 2, 4, 8], inputs: ["1", "2", large]}]
learning: {target: 5, fewest: 8, in_a_row: 1, error: cross-validation}
"""


def time_s(attributes):
    return 30 + 600 * attributes["input_bytes"] / 2**30 / attributes["cpus"]


def runs_of(learning, counters, slower=1.0, first=1):
    """Runs as the accounting has them, the quotes lost."""
    own, made = RunCommands(learning.description, counters), []
    for number, trial in enumerate(learning.journal.trials.values(), first):
        argv = own.argv(learning.choices.at(trial.attributes)[0], trial)
        at_s, took_s = SUBMIT_S + 3000 * number, slower * trial.elapsed_s
        nodes, cpus = trial.nodes, int(trial.attributes["cpus"])
        made.append(
            run(
                job_id=number, user="ada", name=trial.job_name, state=JobState.COMPLETED,
                nodes=nodes, cpus=nodes * cpus, tasks=nodes, submit_s=at_s, start_s=at_s,
                req_mem_bytes=int(trial.attributes.get("memory", 0)) or None,
                end_s=at_s + round(took_s), elapsed_s=took_s, limit_s=3600, work_dir="/home/ada",
                comment=next(one[10:] for one in argv if one.startswith("--comment=")),
                submit_line=" ".join(argv),
            )
        )  # fmt: skip
    return made


def service_of(runs, folder):
    with Store.open(f"sqlite:///{folder}/nimo.db") as store:
        store.runs.add(runs)
        refit(store, now_s=2e9)
        made = advisor(mode=Mode.ENFORCE)
        made.tables = PredictionLookup(
            (row.level, row.key, row.payload) for row in store.fits.all()
        )
    return made


@pytest.fixture
def learned(tmp_path):
    learning = bench(slurm := slurm_of(time_s), tmp_path / "app.learn.json", TEXT)
    campaign(learning, slurm).follow()
    return learning


def job(size_gib, cpus, nodes=1, offers=",cpus=1-8"):
    comment = f"--comment=nimo:app=blast,size={size_gib}G{offers}"
    wrap = "--wrap=blast -t $SLURM_CPUS_PER_TASK in.dat"
    argv = ["sbatch", f"-N{nodes}", f"-n{nodes}", f"-c{cpus}", "-t60", comment, wrap]
    asked = job_of({"argv": argv, "script": "", "work_dir": "/home/ada"})
    return structs.replace(asked, hook=HookLevel.SIZES)


def test_jobs_are_advised_and_changed_by_what_was_learned(learned, tmp_path):
    runs = runs_of(learned, tmp_path)
    service = service_of(runs, tmp_path)
    advice = service.advise(job(3, 4), now_s=NOW)  # no run had 3 GiB
    assert (advice.key_level, advice.runs) == ("tag", len(runs))
    expected = {row.nodes: (row.low_s, row.high_s) for row in advice.rows}
    for cpus in (2, 4, 8):
        low_s, high_s = expected[cpus]
        actual_s = time_s({"input_bytes": 3 * 2.0**30, "cpus": cpus})
        assert low_s < actual_s < high_s < 2 * low_s
    answer, decision = service.submit(job(3, 1), via="job_submit", now_s=NOW)
    assert (whole_key(decision.key), decision.unit, decision.applied) == ("ada/blast", "cpus", True)
    assert decision.nodes > 1, answer


def test_requests_that_were_not_run_are_predicted_by_the_learned_function(tmp_path):
    def took_s(attributes):
        return (
            30 + 600 * attributes["input_bytes"] / 2**30 / attributes["nodes"] / attributes["cpus"]
        )

    text = TEXT.replace("cpus: [1, 2, 4, 8]", "nodes: [1, 2, 4], cpus: [1, 2, 4, 8]")
    learning = bench(slurm := slurm_of(took_s), tmp_path / "app.learn.json", text)
    campaign(learning, slurm).follow()
    service = service_of(runs_of(learning, tmp_path), tmp_path)
    for nodes, cpus, size in ((1, 3, 3), (2, 6, 1.5), (4, 5, 3), (3, 7, 3)):
        advice = service.advise(job(size, cpus, nodes, ""), now_s=NOW)
        (time_s,) = (row.time_s for row in advice.rows if row.nodes == nodes)
        actual_s = took_s({"input_bytes": size * 2.0**30, "cpus": cpus, "nodes": nodes})
        assert time_s == pytest.approx(actual_s, rel=0.1)


@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_advice_says_what_learning_said(noise, tmp_path):
    """One model: what was printed after the runs is what is advised by them.

    With these runs one is far off where it is predicted from the others: the only one on one node.
    """
    rng, ran = random.Random(1), {}

    def took_s(attributes):
        gib = attributes["input_bytes"] / 2**30
        law_s = 30 + 160 * gib / attributes["nodes"] / attributes["cpus"]
        return ran.setdefault(tuple(attributes.items()), law_s * rng.lognormvariate(0, noise))

    text = TEXT.replace("cpus: [1, 2, 4, 8]", "nodes: [1, 2, 4], cpus: [1, 2, 4]")
    text = text[: text.index("learning:")]
    learning = bench(slurm := slurm_of(took_s), tmp_path / "app.learn.json", text)
    campaign(learning, slurm).follow()
    service = service_of(runs_of(learning, tmp_path), tmp_path)
    for one in learning.learned().expected:
        nodes, cpus = int(one.attributes["nodes"]), int(one.attributes["cpus"])
        size = one.attributes["input_bytes"] / 2**30
        advice = service.advise(job(f"{size:g}", cpus, nodes, ""), now_s=NOW)
        (row,) = (row for row in advice.rows if row.nodes == nodes)
        assert row.time_s == pytest.approx(one.time_s, rel=0.05)
        measured_s = ran.get(tuple(one.attributes.items()), row.time_s)
        assert row.low_s <= measured_s <= row.high_s


#: Seconds by CPUs and MiB of input of a program that gained nothing by a second CPU: others ran.
BUSY_S = {
    (1, 4): 30, (1, 8): 50, (1, 16): 70, (1, 24): 110, (1, 32): 190, (1, 48): 340,
    (2, 4): 30, (2, 8): 60, (2, 16): 70, (2, 24): 150, (2, 32): 140, (2, 48): 230,
}  # fmt: skip


def test_another_count_is_advised_as_learning_said(tmp_path):
    """Two counts are no curve; but runs that the model moved are of one problem."""
    names = ", ".join(f'"{mib}"' for _, mib in list(BUSY_S)[:6])
    inputs = ", ".join(f'{{name: "{mib}", size: {mib}M}}' for _, mib in list(BUSY_S)[:6])
    head = TEXT[: TEXT.index("inputs:")]
    text = f"{head}inputs: [{inputs}]\nassignments: [{{cpus: [1, 2], inputs: [{names}]}}]\n"

    def took_s(attributes):
        return BUSY_S[attributes["cpus"], attributes["input_bytes"] / 2**20]

    learning = bench(slurm := slurm_of(took_s), tmp_path / "app.learn.json", text)
    campaign(learning, slurm).follow()
    service = service_of(runs_of(learning, tmp_path), tmp_path)
    said = {tuple(one.attributes.values()): one for one in learning.learned().expected}
    for asked, other in ((1, 2), (2, 1)):
        small = structs.replace(job("1", asked), comment="nimo:app=blast,size=16M")
        advice = service.advise(small, now_s=NOW)
        (time_s,) = (row.time_s for row in advice.rows if row.nodes == other)
        assert time_s == pytest.approx(said[other, 16 * 2.0**20].time_s, rel=0.1)


def test_several_resources_at_once_are_learned_from(tmp_path):
    """Input size, CPUs and memory: with little memory a run takes three times as long."""

    def took_s(attributes):
        return time_s(attributes) * (3 if attributes["memory"] < 3 * 2**30 else 1)

    text = TEXT.replace("8], inputs", "8], memory: [2G, 8G], inputs")
    learning = bench(slurm := slurm_of(took_s), tmp_path / "app.learn.json", text)
    campaign(learning, slurm).follow()
    service = service_of(runs_of(learning, tmp_path), tmp_path)
    for memory in (2, 8):
        asked = job(3, 4)
        asked = structs.replace(asked, min_mem_per_node=memory * 1024)
        advice = service.advise(asked, now_s=NOW)
        row = next(row for row in advice.rows if row.nodes == 4)
        actual_s = took_s({"input_bytes": 3 * 2.0**30, "cpus": 4, "memory": memory * 2.0**30})
        assert row.low_s < actual_s < row.high_s < 2 * row.low_s


def test_later_runs_join_those_that_were_learned_from(learned, tmp_path):
    runs = runs_of(learned, tmp_path)
    before = service_of(runs, tmp_path).advise(job(4, 4), now_s=NOW)
    later = [
        structs.replace(one, comment=one.comment.replace("off,", ""), name="blast")
        for number in (101, 201)
        for one in runs_of(learned, tmp_path, slower=3.0, first=number)
    ]
    cut = {"state": JobState.TIMEOUT, "user": "eve"}  # all of hers: nothing is learned from them
    unended = [structs.replace(one, job_id=900 + one.job_id, **cut) for one in runs]
    after = service_of([*later, *unended], tmp_path).advise(job(4, 4), now_s=NOW)
    assert after.runs == len(runs) + len(later)
    times_s = [next(row.time_s for row in one.rows if row.nodes == 4) for one in (before, after)]
    assert times_s[1] > 1.5 * times_s[0]


def words_of(one):
    return words_of_line(one.submit_line, one.work_dir, one.comment, one.name)


def test_words_of_a_counted_command_are_those_that_the_user_types(learned, tmp_path):
    own, counted = (runs_of(learned, folder)[0] for folder in (None, tmp_path))
    assert "nimo_io" in counted.submit_line and "nimo_io" not in own.submit_line
    assert words_of(own) == words_of(counted)
    words_after = learn_command.next_steps(
        learned.proposer.learned().expected, learned.choices, learned.description
    )
    assert "--comment=nimo:app=blast,size=1G " in words_after
    uneven = SimpleNamespace(attributes={"input_bytes": 1048577.0})
    assert learned.description.tag(uneven) == "app=blast,size=1048577"
