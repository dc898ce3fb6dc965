"""Steps in time, worked out by hand: copies, links, room on storages, results brought home."""

from dataclasses import replace

import pytest

from slurm_plugin.experiments.plan.run_times import TaskEstimate
from slurm_plugin.experiments.plan.schedule import Step, TaskOption, build
from tests.slurm_plugin.experiments.plan.made import NOW, problem

MIB = 2.0**20
#: Copies of 100 MiB take 10 s from s to t, 20 s from u to t.
SITE = """
storages: {s: {path: /s}, t: {path: /t}, u: {path: /u}}
links:
  - {from: s, to: t, bandwidth: 10M, streams: 1}
  - {from: u, to: t, bandwidth: 5M}
  - {from: s, to: u, bandwidth: 50M, remote: false}
places: {a: {storage: s}, b: {storage: t}, c: {storage: u}}
files: {f: {at: s, size: 100M}, g: {at: s, size: 100M}, r: {size: 40M}}
tasks:
  x: {command: x, reads: [f], writes: [r], run_time: 50}
  y: {command: y, reads: [f, g], run_time: 30}
"""


def built(made, **options):
    chosen = {
        name: one if isinstance(one, TaskOption) else TaskOption(*one)
        for name, one in options.items()
    }
    return build(made, [name for name in options if name in made.workflow.tasks], chosen)


def times(made):
    return {one.name: (one.start_s - NOW, one.end_s - NOW) for one in made.steps}


def only(text, *tasks):
    lines = text.splitlines()
    return "\n".join(line for line in lines if line[:2] != "  " or line[2:3] not in "xy"
                     or line[2] in tasks)  # fmt: skip


def test_a_file_is_copied_once_for_all_that_read_it_there():
    made = times(built(problem(SITE), x=("b", 1), y=("b", 1)))
    # f and then g over the one stream; y needs both, x only f.
    assert made == {
        "f to t": (0.0, pytest.approx(10.0)),
        "x": (pytest.approx(10.0), pytest.approx(60.0)),
        "g to t": (pytest.approx(10.0), pytest.approx(20.0)),
        "y": (pytest.approx(20.0), pytest.approx(50.0)),
    }


def test_copies_of_one_task_come_one_after_the_other_and_others_share_the_streams():
    text = SITE.replace("streams: 1", "streams: 2").replace("reads: [f, g]", "reads: [g]")
    made = times(built(problem(text), x=("b", 1), y=("b", 1)))
    assert made["f to t"] == made["g to t"] == (0.0, pytest.approx(10.0))
    both = SITE.replace("streams: 1", "streams: 2")
    made = times(built(problem(only(both, "y")), y=("b", 1)))
    assert made["g to t"] == (pytest.approx(10.0), pytest.approx(20.0))


def test_of_several_copies_the_one_that_arrives_first_is_made():
    """After x at c, f is at u as well; from s it takes 10 s, from u 20."""
    made = built(problem(SITE), x=("c", 1), y=("b", 1))
    copies = {one.name: one.source for one in made.steps if not one.nodes}
    assert copies == {"f to u": "s", "f to t": "s", "g to t": "s"}
    slow = SITE.replace("bandwidth: 10M, streams: 1", "bandwidth: 1M, streams: 1")
    made = built(problem(slow), x=("c", 1), y=("b", 1))
    assert {one.name: one.source for one in made.steps if not one.nodes}["f to t"] == "u"


@pytest.mark.parametrize(("from_s", "nearest"), [("10M", "s"), ("4M", "u")])
def test_of_the_replicas_of_a_file_the_fastest_is_staged_and_read_in_place(from_s, nearest):
    text = only(SITE, "x").replace("f: {at: s,", "f: {at: [u, s],")
    text = text.replace("bandwidth: 10M, streams: 1", f"bandwidth: {from_s}")
    staged = built(problem(text), x=("b", 1))
    assert [one.source for one in staged.steps if not one.nodes] == [nearest]
    in_place = built(problem(text), x=TaskOption("b", 1, stage=False))
    assert [one.remote for one in in_place.steps if one.nodes] == [(("f", nearest),)]


def test_where_a_replica_is_near_nothing_is_copied():
    text = only(SITE, "x").replace("f: {at: s,", "f: {at: [u, s, t],")
    assert [one.name for one in built(problem(text), x=("b", 1)).steps] == ["x"]


def test_reading_in_place_takes_the_copy_that_was_there_first():
    """s is the earlier one; u cannot be opened from a, and t is not linked to c."""
    made = built(problem(SITE), x=("b", 1), y=("a", 1))
    assert [one.remote for one in made.steps if one.name == "y"] == [()]
    y = next(
        one for one in built(problem(SITE), x=("c", 1), y=("b", 1, False)).steps if one.name == "y"
    )
    assert y.remote == (("f", "s"), ("g", "s"))
    # Nothing can be opened from c: no plan.
    assert built(problem(SITE), y=("c", 1, False)) is None


def test_a_file_that_has_to_be_staged_is_whatever_is_chosen():
    text = only(SITE, "x").replace(
        "f: {at: s, size: 100M}", "f: {at: s, size: 100M, access: stage}"
    )
    made = times(built(problem(text), x=("b", 1, False)))
    assert made["x"][0] == pytest.approx(10.0)
    remote = text.replace("access: stage", "access: remote")
    assert list(times(built(problem(remote), x=("b", 1, True)))) == ["x"]


def test_storages_have_room_for_copies_and_results_to_the_byte():
    for free, fits in ((140, True), (139, False)):
        text = SITE.replace("t: {path: /t}", f"t: {{path: /t, free: {free}M}}")
        assert (built(problem(text), x=("b", 1)) is not None) == fits
    text = SITE.replace("t: {path: /t}", "t: {path: /t, free: 239M}")
    # The second task's copy finds what the first has left.
    assert built(problem(text), x=("b", 1), y=("b", 1)) is None
    assert built(problem(text.replace("239M", "240M")), x=("b", 1), y=("b", 1)) is not None


def test_results_are_brought_to_where_they_have_to_be():
    text = only(SITE, "x").replace("r: {size: 40M}", "r: {size: 40M, deliver: s}")
    away, home = built(problem(text), x=("b", 1)), built(problem(text), x=("a", 1))
    (copy,) = (one for one in away.steps if one.name == "r to s")
    assert (copy.source, copy.target, copy.needs, copy.task) == ("t", "s", ("x",), "x")
    assert (copy.start_s - NOW, copy.end_s - NOW) == (pytest.approx(60.0), pytest.approx(64.0))
    assert list(times(home)) == ["x"]
    # One way only: it cannot be brought back.
    assert built(problem(text.replace("streams: 1", "one_way: true")), x=("b", 1)) is None


def test_more_nodes_than_there_are_is_no_plan():
    wide = SITE.replace("run_time: 30", "run_time: {1: 30, 3: 10}")
    assert built(problem(wide, 2), y=("a", 3)) is None
    assert built(problem(wide, 3), y=("a", 3)) is not None


def test_a_copy_whose_time_is_unknown_is_no_way():
    assert built(problem(SITE.replace("bandwidth: 10M, ", "")), x=("b", 1)) is None


def test_unmeasured_links_are_as_fast_for_reading_as_for_copying():
    """A copy of 100 MiB in 25 s: 4 MiB/s, so that the run stalls for 25 s; no latency."""
    made = problem(SITE.replace("bandwidth: 10M, ", ""))

    class Measured:
        def copy(self, *_):
            return TaskEstimate(25.0)

    read = built(replace(made, transfers=Measured()), x=("b", 1, False))
    assert times(read) == {"x": (0.0, pytest.approx(75.0))}


def done(name, end_s, nodes, **also):
    estimate = TaskEstimate(end_s)
    given = {"target": "t", "pool": "b", "task": name} | also
    return Step(name, NOW, NOW + end_s, NOW, estimate, (), nodes=nodes, **given)


def test_what_has_begun_keeps_its_link_but_its_nodes_are_counted_already():
    copy = done("g to t", 30.0, 0, pool="s to t", file="g", source="s", task="y")
    made = replace(problem(SITE, 1), done=(copy,))
    assert times(built(made, x=("b", 1)))["f to t"] == (pytest.approx(30.0), pytest.approx(40.0))
    run = done("y", 30.0, 1)
    made = replace(problem(only(SITE, "x", "y"), 1), done=(run,))
    assert times(built(made, x=("b", 1)))["x"][0] == pytest.approx(10.0)
    board = built(made)
    assert (board.end_s, board.node_s) == (NOW + 30.0, 30.0)


def test_needs_and_waits_are_what_a_step_waits_for():
    made = built(problem(SITE, 1), x=("b", 1), y=("b", 1))
    by_name = {one.name: one for one in made.steps}
    assert by_name["x"].needs == ("f to t",)
    assert by_name["y"].needs == ("f to t", "g to t")
    assert by_name["f to t"].needs == ()
    assert by_name["y"].wait_s == pytest.approx(60.0 - 20.0)
    assert by_name["g to t"].wait_s == pytest.approx(10.0)
    assert made.node_s == pytest.approx(80.0)
    assert made.end_s == pytest.approx(NOW + 90.0)
    assert by_name["f to t"].node_s == 0.0


def test_a_task_of_nothing_is_ready_at_once_and_after_the_moment_of_planning():
    text = only(SITE, "x").replace("reads: [f], ", "")
    made = built(replace(problem(text), now_s=NOW + 5.0), x=("a", 1))
    assert made.steps[0].ready_s == NOW + 5.0
    assert made.steps[0].start_s == NOW + 5.0
