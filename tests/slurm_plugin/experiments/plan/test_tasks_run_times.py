"""Run times of tasks: of tables, and of tasks that never ran."""

import msgspec
import pytest

from predictor.neighbours import AskedJob, PastJob, PastJobs, words_of
from predictor.refit import row_of
from predictor.tables.run_facts import change_of
from predictor.types import Verdict
from sacct_ingest.errors import NoHistory
from sacct_ingest.runs.layout import Unit
from sacct_ingest.store import RecordRow, Store
from sacct_ingest.store.fits import NEIGHBOURS
from slurm_plugin.experiments.plan.chain import jobs
from slurm_plugin.experiments.plan.plans import plans
from slurm_plugin.experiments.plan.run_times import PlaceSpeed
from slurm_plugin.slurm.job_request import user_name
from tests.slurm_plugin.experiments.plan.made import NOW, problem
from tests.slurm_plugin.experiments.plan.polled_site import flow, places, problem_of
from tests.slurm_plugin.made import partition, table

NEVER_RAN = """
storages: {s: {path: /s}}
places: {a: {storage: s}}
tasks:
  short: {command: sort in, sbatch: [--time=60], nodes: 2-4}
  long: {command: align in, sbatch: [--time=60], nodes: 2-4}
"""


def never_ran(slurm, folder, text=NEVER_RAN, **jobs_of):
    """The problem of tasks that never ran, where these users had run jobs like them."""
    past = [
        PastJob(user, NOW - 9000, NOW - 900 + n, time_s, asked)
        for user, number in jobs_of.items()
        for words, time_s in (("sort in", 60.0), ("align in", 1800.0))
        for asked in [AskedJob(2, limit_s=3600.0, partition="a", words=words_of(words))]
        for n in range(number)
    ]
    with Store.open(f"sqlite:///{folder}/nimo.db") as store:
        payload = msgspec.json.encode(PastJobs(past)).decode()
        store.records.put(RecordRow(level=NEIGHBOURS[0], key=NEIGHBOURS[1], payload=payload))
    slurm.gives(partition(name="a"))
    return problem_of(flow(text), folder)


def test_a_task_that_never_ran_takes_what_jobs_like_it_took_and_says_so(slurm, tmp_path):
    made = never_ran(slurm, tmp_path, **{user_name(): 20})
    task, place = made.workflow.tasks, made.workflow.places["a"]
    assert list(made.runs.counts(task["short"], place)) == [2]
    short, long = (made.runs.run(task[name], place, 2, ()) for name in ("short", "long"))
    assert short.time_s < 200 < 1000 < long.time_s
    assert long.doubt == "it never ran: a guess from 40 of your other jobs"
    # Its time limit is its own, and no guess.
    planned = jobs(made.workflow, plans(made)[0].schedule, rooms=made.rooms)
    assert [[o for o in one.options if "--time" in o][-1] for one in planned] == ["--time=60"] * 2


@pytest.mark.parametrize(
    ("text", "users"),
    [
        (NEVER_RAN, {}),
        (NEVER_RAN, {"bob": 9, "zoe": 9, "kim": 9}),  # the site does not let users see these
        (NEVER_RAN.replace("sbatch: [--time=60], ", ""), {user_name(): 20}),
        (NEVER_RAN.replace("nodes: 2-4", "samples: history"), {user_name(): 20}),
    ],
)
def test_without_jobs_that_may_be_seen_or_a_limit_of_its_own_nothing_is_guessed(
    slurm, tmp_path, text, users
):
    wanted = r"tasks\.(short|long): there is no history of .*; or give its run_time .*, samples,"
    with pytest.raises(NoHistory, match=wanted):
        never_ran(slurm, tmp_path, text, **users)


TABLED = """
storages: {s: {path: /s}}
places: {a: {storage: s}, b: {storage: s, speed: 2}}
tasks: {x: {command: x, nodes: 2-16, application: solve}}
"""


def test_runs_on_other_counts_are_no_runs_of_this_problem():
    """Problems as large as their nodes: one on fewer than usual takes longer than theirs there."""
    usual = table(lambda n: 600.0, change=change_of((), Unit.NODES), observed=(2, 8))
    runs = problem(TABLED, 16, tables={"x": usual})
    task, place = runs.workflow.tasks["x"], runs.workflow.places["a"]
    assert runs.runs.run(task, place, 8, ()).time_s == pytest.approx(600.0, rel=0.05)
    assert runs.runs.run(task, place, 2, ()).time_s > 1200.0


def test_a_table_has_the_counts_and_the_doubts_that_it_has():
    refused = [Verdict.RELIABLE] * 4 + [Verdict.DOUBTFUL] * 4 + [Verdict.REFUSED] * 24
    recorded = table(verdicts=tuple(refused), curve_sd=0.05)
    made = problem(TABLED, 16, tables={"x": recorded})
    task, places = made.workflow.tasks["x"], made.workflow.places
    assert list(made.runs.counts(task, places["a"])) == list(range(1, 9))
    sure, doubtful = (made.runs.run(task, places["a"], n, ()) for n in (2, 8))
    assert (sure.time_s, sure.common, sure.group, sure.doubt) == (1900.0, 0.05, "solve", "")
    assert doubtful.doubt == "its prediction is doubtful"
    fast = made.runs.run(task, places["b"], 2, ())
    assert fast.time_s == pytest.approx(950.0)
    assert made.runs.run(task, places["a"], 33, ()) is None
    none = problem(TABLED, 16)
    assert list(none.runs.counts(task, places["a"])) == []
    assert none.runs.run(task, places["a"], 2, ()) is None


def test_a_measured_speed_counts_where_the_workflow_gives_none():
    given = {"tables": {"x": table()}, "speeds": {"a": PlaceSpeed(4.0), "b": PlaceSpeed(4.0)}}
    made = problem(TABLED, 16, **given)
    task, places = made.workflow.tasks["x"], made.workflow.places
    times = [made.runs.run(task, places[name], 4, ()) for name in "ab"]
    assert [one.time_s for one in times if one] == [pytest.approx(250), pytest.approx(500)]


def test_a_part_of_a_table_for_the_node_type_is_as_fast_as_it_says():
    recorded = table(node_type="old")
    given = {
        "tables": {"x": recorded},
        "speeds": {"a": PlaceSpeed(4.0)},
        "types": {"a": "old", "b": "old"},
    }
    made = problem(TABLED, 16, **given)
    task, places = made.workflow.tasks["x"], made.workflow.places
    typed, reported = (made.runs.run(task, places[name], 4, ()) for name in "ab")
    # Its type is the table's: the measured speed is in it.  A speed that is given counts.
    assert (typed.time_s, reported.time_s) == (1000.0, 500.0)
    other = problem(TABLED, 16, **{**given, "types": {"a": "else"}})
    unlike = other.runs.run(task, places["a"], 4, ())
    assert unlike.time_s == 250.0


@pytest.mark.parametrize(
    ("label", "level", "owner", "tag"),
    [
        ("{me}/lammps/melt", "tag", "{me}", "nimo:app=lammps,problem=melt"),
        ("melt", "tag", "{me}", "nimo:app=lammps,problem=melt"),
        ("anna/lammps/melt", "tag", "anna", "nimo:app=lammps,problem=melt"),
        ("{me}/melt", "line", "{me}", "nimo:app=melt"),
        ("anna/lammps/melt", "", "anna", "nimo:app=lammps,problem=melt"),
    ],
)
def test_a_job_of_a_plan_has_the_tag_of_its_history(slurm, tmp_path, label, level, owner, tag):
    """With the label of 'nimo predict' its runs joined another application's, ravi/ravi/lammps."""
    me = user_name()
    label, owner = label.format(me=me), owner.format(me=me)
    key = f"{owner}/lammps/melt" if level == "tag" else "ab12"
    own = table(level=level, key=key, label=f"{owner}/lammps/melt" if level == "tag" else label,
                owner=owner)  # fmt: skip
    with Store.open(f"sqlite:///{tmp_path}/nimo.db") as store:
        store.fits.replace([row_of(own)] if level else [])
    slurm.gives(*places(a="1234"))
    text = "storages: {s: {path: /s}}\nplaces: {a: {storage: s}}\n"
    known = "" if level else ", run_time: {1: 60}"
    task = f"{{command: x, application: {label}{known}}}"
    made = problem_of(flow(f"{text}tasks: {{x: {task}}}"), tmp_path)
    first = plans(made)[0]
    assert f"--comment={tag}" in jobs(made.workflow, first.schedule, rooms={})[0].options
