"""What nimo-advise says that sbatch will do with a job is what the job then has."""

import json
import re
from dataclasses import replace

import pytest

from tests.end_to_end.test_policy import exact, tables
from tests.processes import LONGEST_WAIT_S, wait_until
from tests.slurm_plugin.made import with_tails

#: Options of jobs whose count NIMO chooses.
CHOSEN = {
    "range": ("-N", "1-8", "-t", "5"),
    "narrow": ("-N", "2-4", "-t", "5"),
    "no trying": ("-N", "1-8", "-t", "5", "--comment=nimo:learn=off"),
    "tag": ("-t", "5", "--exclusive", "--comment=nimo:nodes=1-8"),
    "range and limit": ("-N", "1-8", "-t", "60", "--exclusive", "--comment=nimo:time=set"),
}
#: The same of jobs that keep theirs, with the ends of it.
KEPT = {
    "fixed": (("-N", "4", "-t", "5"), (4, 4)),
    "off": (("-N", "1-8", "-t", "5", "--comment=nimo:off"), (1, 8)),
    "limit": (("-N", "4", "-t", "60", "--comment=nimo:time=set"), (4, 4)),
}
SHAPES = {name: words for name, (words, _) in KEPT.items()} | CHOSEN
#: Least share of the limit asked for that a limit of NIMO's has.
LEAST_SHARE = 0.05
ANNOUNCED = re.compile(r"sbatch will run this on (\d+) nodes?")
#: Sleeps 20 s, on any count.
NEW = "#!/bin/sh\n#SBATCH -J unseen\nsleep 20\n"
SLEEPER = "#!/bin/sh\n#SBATCH -J sleeper\nsleep 900\n"


def advised(site, *words):
    """Give what is advised on a job."""
    return json.loads(site.advise("--json", *words, check=False).stdout)


def steady(site, *words):
    """Give what two views of the cluster, one after the other, say of a job.

    What the queue was lately fades, and counts go by it.
    """
    said = []

    def again():
        site.settled()
        advice = advised(site, *words)
        said.append((advice["nodes"], advice["submit_text"], advice["time_directive"], advice))
        return len(said) > 1 and said[-1][:3] == said[-2][:3]

    wait_until(again, what="an advice that stays")
    return said[-1][-1]


def ends(shown):
    """Read the fewest and the most nodes of a job."""
    low, _, high = shown["NumNodes"].partition("-")
    return int(low), int(high or low)


def minutes(limit):
    """Read a time limit of less than a day in whole minutes."""
    hours, full, _ = limit.split(":")
    return 60 * int(hours) + int(full)


def of_few_runs(recorded):
    """Give a curve that is the same on a busy machine, of too few runs for a limit."""
    return replace(exact(recorded), runs=5)


def of_many_runs(recorded):
    """Give the same curve with how long the longest runs take."""
    return with_tails(15.0, 30.0)(exact(recorded))


@pytest.mark.parametrize("shape", SHAPES)
def test_a_job_has_the_count_and_limit_that_advice_says(enforcing, shape):
    with tables(enforcing, of_few_runs):
        held_as_said(enforcing, shape)


@pytest.mark.parametrize("shape", [name for name in SHAPES if "limit" in name])
def test_a_limit_that_runs_support_is_set_as_advice_says(enforcing, shape):
    with tables(enforcing, of_many_runs):
        held_as_said(enforcing, shape, sets_limit=True)


def held_as_said(site, shape, *, sets_limit=False):
    """Submit a job and hold it against the advice on it.

    sets_limit: it asks for a limit, and its runs say enough to set one.
    """
    words = SHAPES[shape]
    advice = steady(site, *words, site.script)
    shown, decision = site.decided(*words, "--hold")
    announced = ANNOUNCED.search(advice["submit_text"])
    if shape in CHOSEN:
        said = int(announced[1]) if announced else advice["nodes"]
        assert ends(shown) == (said, said), advice
    else:
        assert (ends(shown), advice["submit_text"]) == (KEPT[shape][1], ""), advice
    asked = int(words[words.index("-t") + 1])
    has = minutes(shown["TimeLimit"])
    if not sets_limit:
        assert has == asked, advice
        if "limit" in shape:
            assert "too few to be sure" in advice["time_text"], advice
        return
    found = re.search(r"--time=(\S+)", advice["time_directive"])
    said = max(minutes(found[1]), round(LEAST_SHARE * asked))
    if shape in CHOSEN:  # on a count that it did not ask for a job is given more room
        assert (1 if announced else said) <= has < asked, (advice, decision)
    else:
        assert has == said, (advice, decision)


def test_one_run_names_a_limit_and_sets_none(enforcing):
    site = enforcing
    script = site.write_script("unseen.sh", NEW)
    words = ("-N", "1", "-t", "60")
    site.cluster.wait(site.submit(*words, script=script), accounted=True, timeout_s=LONGEST_WAIT_S)
    site.learn()
    site.settled()
    advice = advised(site, *words, script)
    assert "This limit rests on 1 run: too few to be sure." in advice["time_text"], advice
    found = re.fullmatch(r"#SBATCH --time=(\S+)", advice["time_directive"])
    assert 1 <= minutes(found[1]) <= 10, advice["time_directive"]
    ended = site.cluster.run("sbatch", "--hold", *words, "--comment=nimo:time=set", script)
    shown = site.cluster.job(int(ended.stdout.split()[-1]))
    assert shown["TimeLimit"] == "01:00:00"
    assert "time=set changes nothing: its user has finished too few runs" in ended.stderr


@pytest.fixture
def closed(enforcing):
    """The site where asking for a range of nodes opts nobody in."""
    enforcing.read_settings("enforce", opt_in={"node_range": False})
    yield enforcing
    enforcing.read_settings("enforce")


@pytest.mark.parametrize("busy", [(), (3,), (3, 5)], ids=["idle", "half full", "full"])
def test_a_range_that_is_not_opted_in_is_compared_with_the_count_that_slurm_gives(closed, busy):
    """A full cluster: those nodes that are free first, by the time limits of their jobs."""
    site = closed
    sleeper = site.write_script("sleeper.sh", SLEEPER)
    others = []
    for nodes, limit in zip(busy, ("2", "60"), strict=False):
        words = ("-N", str(nodes), "-t", limit, "--exclusive", "--comment=nimo:off")
        others.append(site.submit(*words, script=sleeper))
        wait_until(lambda: is_running(site, others[-1]), what="a start")
    site.settled()
    words = ("-N", "1-8", "-t", "5")
    expected = {(): 8, (3,): 5, (3, 5): 3}[busy]
    # On a busy machine an answer of nimod may come too late: then one is of an idle cluster.
    wait_until(
        lambda: advised(site, *words, site.script)["asked"] == expected,
        what="advice compared with what Slurm gives",
    )
    job = site.submit(*words)
    if len(busy) > 1:
        ends_at_once(site, others[0], nodes=busy[0])
    wait_until(lambda: site.cluster.job(job)["JobState"] != "PENDING", what="the job to start")
    assert ends(site.cluster.job(job)) == (expected, expected)


def is_running(site, job):
    return site.cluster.job(job)["JobState"] == "RUNNING"


def ends_at_once(site, job, *, nodes):
    """End a job, and let others have its nodes when the last of them is free."""

    def free():
        shown = site.cluster.run(
            "sinfo", "-h", "-N", "-p", "batch", "-t", "idle", "-o", "%N"
        ).stdout
        return len(shown.split()) == nodes

    site.cluster.run("scontrol", "update", "partition=batch", "state=down")
    site.cluster.run("scancel", str(job))
    try:
        wait_until(free, what="its nodes to be free")
    finally:
        site.cluster.run("scontrol", "update", "partition=batch", "state=up")
