"""Plans as jobs: their scripts, options and dependencies."""

from dataclasses import replace
from math import ceil, exp
from statistics import NormalDist

import pytest

from slurm_plugin.experiments.plan.chain import command_line, dependents, job_name, jobs, path_of
from slurm_plugin.experiments.plan.followed_plan import waits_elsewhere
from slurm_plugin.experiments.plan.plans import plans
from slurm_plugin.experiments.plan.run_times import TaskEstimate
from slurm_plugin.experiments.plan.schedule import PlanSchedule, Step, TaskBounds, TaskOption, build
from slurm_plugin.experiments.plan.workflow import File, Storage
from tests.slurm_plugin.experiments.plan.made import NOW, problem

TWO_CLUSTERS = """
name: flow
storages: {near: {path: /near}, far: {path: /far data}}
links:
  - {from: near, to: far, bandwidth: 100M, remote: false, copy: "rsync {source} host:{target}"}
places: {here: {storage: near}, there: {storage: far, cluster: big, partition: batch, speed: 10}}
files: {raw: {at: near, size: 1G}, mid: {size: 1M}, out: {size: 1M, deliver: near}}
tasks:
  first: {command: "a {raw} > {mid}; b ${raw}", reads: [raw], writes: [mid], places: [here],
          run_time: 100}
  second: {command: "c {mid} > {out}", reads: [mid], writes: [out], places: [there],
           run_time: {1: 1000, 2: 500}, application: conv/big, sbatch: [--exclusive]}
"""


@pytest.fixture
def chain():
    made = problem(TWO_CLUSTERS)
    schedule = plans(made)[0].schedule
    return jobs(made.workflow, schedule, rooms={}, deadline_s=NOW + 3600, hard=True)


def test_scripts_have_the_paths_of_where_they_run(chain):
    first, copied, second, back = chain
    assert first.script.endswith("a /near/raw > /near/mid; b ${raw}\n")
    assert "rsync /near/mid host:'/far data/mid.part'\n" in copied.script
    assert second.script.endswith("c '/far data/mid' > '/far data/out'\n")
    assert {"--clusters=big", "--partition=batch", "--nodes=2", "--exclusive"} <= {*second.options}
    assert "--comment=nimo:app=conv,problem=big" in second.options
    assert "--comment=nimo:off" in back.options
    assert "--clusters=big" not in back.options
    # A copy reports itself to the cluster where it runs, whichever its environment names.
    assert 'scontrol -M big update JobId="$SLURM_JOB_ID"' in copied.script
    assert 'scontrol update JobId="$SLURM_JOB_ID"' in back.script
    assert f"--deadline=uts{int(NOW) + 3600}" in back.options
    # A minute and twice what one of a hundred runs takes more than the median.
    assert "--time=4" in first.options


def test_what_needs_another_cluster_is_named(chain):
    assert waits_elsewhere(chain) == ["mid to far", "second", "out to near"]


SITE = """
name: w
storages: {s: {path: /s}, t: {path: /t/}, u: {path: /u}}
links: [{from: s, to: t, bandwidth: 10M}, {from: s, to: u, bandwidth: 10M}]
places:
  a: {storage: s, partition: batch}
  b: {storage: t, cluster: big}
files: {f: {at: s, size: 100M, path: in/raw}, r: {size: 40M, deliver: s}}
tasks:
  x: {command: "run {f} {r} {other}", reads: [f], writes: [r], run_time: {1: 500, 2: 500},
      application: app/p 1}
"""
ABC = """
storages: {s: {path: /s}}
places: {a: {storage: s}}
tasks: {a: {command: a}, b: {command: b}, c: {command: c}}
"""
Z99 = NormalDist().inv_cdf(0.99)


def made(text=SITE, option=None, **also):
    flow = problem(text)
    schedule = build(flow, ["x"], {"x": option or TaskOption("b", 2)})
    assert schedule is not None
    return jobs(flow.workflow, schedule, **{"rooms": {}, **also})


def option(one, name):
    words = [word.partition("=")[2] for word in one.options if word.startswith(f"--{name}=")]
    return words[0] if words else None


def test_limits_hold_what_hardly_any_run_exceeds_and_a_margin():
    """1.2 times the 99 % quantile and a minute, in minutes rounded up."""
    copy, run, back = made(SITE)
    run_s = 500 * exp(0.1 * Z99) * 1.2 + 60
    copy_s = 10 * exp(0.35 * Z99) * 1.2 + 60
    assert [option(one, "time") for one in (copy, run)] == [
        str(ceil(copy_s / 60)), str(ceil(run_s / 60)),
    ]  # fmt: skip
    assert (option(copy, "nodes"), option(run, "nodes"), option(back, "nodes")) == ("1", "2", "1")
    assert (copy.cluster, run.cluster, back.cluster) == ("big", "big", "")
    assert option(run, "partition") == "b"
    assert option(back, "partition") == "batch"
    assert option(run, "comment") == "nimo:app=app,problem=p-1"
    assert option(copy, "comment") == "nimo:off"
    assert option(run, "deadline") is None


def test_the_limit_of_a_job_is_the_last_one_of_its_options():
    run = made(SITE)[1]
    assert run.limit_s == 60 * int(option(run, "time"))
    assert replace(run, options=(*run.options, "-t", "1:30:00")).limit_s == 5400
    assert replace(run, options=(*run.options, "--time=UNLIMITED")).limit_s == 365 * 86_400


@pytest.mark.parametrize(("longest_s", "limit"), [(599.0, "9"), (600.0, "10"), (59.0, "1")])
def test_limits_are_no_longer_than_a_place_gives(longest_s, limit):
    rooms = {("x", "b"): TaskBounds(longest_s=longest_s)}
    assert option(made(SITE, rooms=rooms)[1], "time") == limit


def test_hard_deadlines_leave_what_follows_its_fast_time():
    """The copy home may take 4 s at 0.05 of 0.35; the run 500 s at 0.05 of 0.1."""
    z = NormalDist().inv_cdf(0.05)
    back_s, run_s = 4 * exp(0.35 * z), 500 * exp(0.1 * z)
    copy, run, back = made(SITE, deadline_s=NOW + 1000, hard=True)
    assert option(back, "deadline") == f"uts{ceil(NOW + 1000)}"
    assert option(run, "deadline") == f"uts{ceil(NOW + 1000 - back_s)}"
    assert option(copy, "deadline") == f"uts{ceil(NOW + 1000 - back_s - run_s)}"
    assert option(run, "time") == str(ceil((500 * exp(0.1 * Z99) * 1.2 + 60) / 60))
    tight = made(SITE, deadline_s=NOW + 600, hard=True)[1]
    assert option(tight, "time") == str(int((600 - back_s - 10) // 60))
    assert all(option(one, "deadline") is None for one in made(SITE, deadline_s=NOW + 1000))


def test_latest_ends_are_the_earliest_that_any_follower_asks_for():
    def step(name, takes_s, *needs):
        estimate = TaskEstimate(takes_s)
        return Step(name, NOW, NOW + takes_s, NOW, estimate, needs, "a", nodes=1, task=name)

    steps = (step("a", 5), step("b", 10, "a"), step("c", 20, "a", "gone"))
    flow = problem(ABC).workflow
    schedule = PlanSchedule(steps, {}, NOW, 0.0)
    timed = jobs(flow, schedule, rooms={}, deadline_s=NOW + 100, hard=True)
    latest = {one.name: option(one, "deadline") for one in timed}
    assert latest == {"a": f"uts{NOW + 80:.0f}"} | dict.fromkeys("bc", f"uts{NOW + 100:.0f}")
    untimed = jobs(flow, schedule, rooms={}, hard=True)
    assert all(option(one, "deadline") is None for one in untimed)


def test_scripts_make_folders_and_copy_beside_the_target_first():
    copy, run, back = made(SITE)
    assert run.script.splitlines() == [
        "#!/bin/sh", "set -e", "mkdir -p -- /t", "run /t/in/raw /t/r {other}",
    ]  # fmt: skip
    assert copy.script.splitlines() == [
        "#!/bin/sh", "set -e", "mkdir -p -- /t/in", "rm -rf -- /t/in/raw.part",
        "busy=$(cut -d' ' -f1 /proc/loadavg) || :; began=$(date +%s.%N)",
        "cp -a -- /s/in/raw /t/in/raw.part", "ended=$(date +%s.%N)",
        "mv -T -- /t/in/raw.part /t/in/raw",
        "end=t",
        'scontrol -M big update JobId="$SLURM_JOB_ID" Comment="nimo:off '
        "copied=$(du -sb -- /t/in/raw | cut -f1)/$began/$ended/$busy/$(getconf _NPROCESSORS_ONLN)"
        '/s/t/$end" >/dev/null 2>&1 || :',
    ]  # fmt: skip
    assert back.script.splitlines()[-3] == "mv -T -- /s/r.part /s/r"
    remote = made(SITE, TaskOption("b", 1, stage=False))[0]
    assert remote.script.splitlines()[-1] == "run /s/in/raw /t/r {other}"
    assert path_of(File(name="f"), Storage(name="s", path="/s/")) == "/s/f"


def test_a_copy_runs_near_its_target_or_else_its_source():
    text = SITE.replace("u: {path: /u}", "u: {path: /u}, v: {path: /v}")
    text = text.replace("links: [", "links: [{from: u, to: v, bandwidth: 10M}, ")
    flow = problem(text).workflow
    step = next(one.step for one in made(SITE) if not one.step.nodes)
    # The last has no place near either end: the first one.
    for source, target, partition in (("s", "t", "b"), ("s", "u", "batch"), ("u", "v", "batch")):
        copy = replace(step, source=source, target=target)
        (one,) = jobs(flow, PlanSchedule((copy,), {}, NOW, 0.0), rooms={})
        assert option(one, "partition") == partition


def test_what_waits_for_a_job_of_its_own_cluster_says_so():
    copy, run, _ = made(SITE)
    assert command_line(run, "n", {copy.name: "7"})[-2:] == [
        "--dependency=afterok:7", "--kill-on-invalid-dep=yes",
    ]  # fmt: skip
    assert command_line(run, "n", {"other": "7"})[:3] == ["sbatch", "--parsable", "--job-name=n"]
    assert not any("dependency" in word for word in command_line(run, "n", {}))
    assert job_name("w", "f to t") == "w.f-to-t"
    assert dependents(made(SITE), "f to t") == ["x", "r to s"]
    assert dependents(made(SITE), "x") == ["r to s"]
    assert dependents(made(SITE), "r to s") == []
