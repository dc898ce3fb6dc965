"""The deadline's way from cli_filter to job_submit, in front of the user's comment."""

import time

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

TEXT = st.text(st.characters(min_codepoint=1, max_codepoint=255), max_size=200)
LOOKALIKE = st.builds(
    "nimo{{deadline={},own={}}} {}".format,
    st.sampled_from(["", "uts1", "uts1767261600"]),
    st.integers(0, 5),
    st.text("x ", max_size=5),
)
SAME_HOOKS = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@pytest.fixture
def both(runtime):
    return runtime("forward_deadline = yes").load().load_cli_filter()


def local(seconds):
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(seconds))


@SAME_HOOKS
@given(comment=st.none() | TEXT | LOOKALIKE, seconds=st.none() | st.integers(0, 2**31 - 1))
@example(comment="nimo{deadline=uts1,own=1} x", seconds=None)
@example(comment="", seconds=1767261600)
def test_comment_comes_back_and_the_deadline_arrives(both, comment, seconds):
    given_options = {} if comment is None else {"comment": comment}
    deadline = "Unknown" if seconds is None else str(seconds)
    options = both.filter(type="sbatch", deadline=deadline, **given_options)
    both.answer({"v": 1})
    outcome = both.submit(**{k: v for k, v in options.items() if k == "comment"})
    assert outcome.job.get("comment", "") == (comment or "")
    asked = both.asked()[-1]["job"]
    assert asked.get("deadline") == (None if seconds is None else f"uts{seconds}")


@SAME_HOOKS
@given(comment=TEXT)
def test_comments_pass_where_nothing_is_forwarded(hooks, comment):
    hooks.answer({"v": 1})
    assert hooks.submit(comment=comment).job.get("comment", "") == comment
    assert "deadline" not in hooks.asked()[-1]["job"]


def test_comment_that_only_looks_like_ours_is_the_users(hooks):
    own = "nimo{deadline=uts1767261600,own=9} something longer"
    outcome = hooks.submit(comment=own)
    assert (outcome.job["comment"], outcome.writes) == (own, [])


def test_users_read_what_the_prefix_means(both):
    options = both.filter(type="sbatch", deadline="1767261600", comment="big run")
    assert options["comment"] == "nimo{deadline=uts1767261600,own=7} big run"


def test_local_time_becomes_seconds(both):
    options = both.filter(type="sbatch", deadline=local(1767261600))
    assert options["comment"] == "nimo{deadline=uts1767261600,own=0} "


@pytest.mark.parametrize("unset", ["Unknown", "", "tomorrow at ten"])
def test_nothing_to_forward_leaves_the_comment_alone(both, unset):
    options = {"type": "sbatch", "deadline": unset, "comment": "mine"}
    assert both.filter(**options) == options


def test_steps_of_a_job_are_left_alone(both):
    deadline = {"deadline": "1767261600"}
    both.lua.execute("os.getenv = function(name) return name == 'SLURM_JOB_ID' and '7' or nil end")
    assert "comment" not in both.filter(type="srun", **deadline)
    assert "comment" in both.filter(type="sbatch", **deadline)


def test_nothing_is_forwarded_unless_the_site_says_so(runtime):
    hooks = runtime().load_cli_filter()
    assert "comment" not in hooks.filter(type="sbatch", deadline="1767261600")


def test_comment_that_would_become_too_long_is_left_alone(both):
    own = "x" * 1000
    options = both.filter(type="sbatch", deadline="1767261600", comment=own)
    assert options["comment"] == own


def test_missing_parts_forward_nothing(runtime):
    hooks = runtime("forward_deadline = yes")
    (hooks.folder / "nimo_settings.lua").unlink()
    hooks.load_cli_filter()
    assert "comment" not in hooks.filter(type="sbatch", deadline="1767261600")


def test_options_that_cannot_be_read_or_written_do_no_harm(both):
    broken = both.lua.execute("""
        return setmetatable({}, { __index = function() error("no such option") end })""")
    assert both.lua.globals().slurm_cli_pre_submit(broken, 0) == 0


def test_comment_comes_back_when_nimod_is_off_or_dead(both):
    sent = both.filter(type="sbatch", deadline="1767261600", comment="mine")["comment"]
    (both.folder / "off").touch()
    assert both.submit(comment=sent).job["comment"] == "mine"
    (both.folder / "off").unlink()
    both.peer.connect_problem = "connection refused"
    assert both.submit(comment=sent).job["comment"] == "mine"
    both.lua.execute("package.loaded.nimo_submit.collect = function() error('broken') end")
    assert both.submit(comment=sent).job["comment"] == "mine"


@pytest.mark.parametrize("asking", ["ask_ahead", "rewrite_in_cli_filter"])
def test_without_luasocket_jobs_pass_unchanged(runtime, asking):
    hooks = runtime(f"forward_deadline = yes\n{asking} = yes")
    hooks.lua.execute('package.preload["socket.core"], package.preload["socket.unix"] = nil, nil')
    hooks.load().load_cli_filter()
    (problem,) = hooks.stub["log"].values()
    assert "off until slurmctld loads job_submit.lua again" in problem
    assert "socket" in problem
    given_options = {"comment": "mine", "nodes": "1-8", "deadline": "1767261600"}
    options = hooks.filter(type="sbatch", **given_options)
    assert options.pop("comment") == "nimo{deadline=uts1767261600,own=4} mine"
    assert options.pop("type") == "sbatch"
    assert options == {k: v for k, v in given_options.items() if k != "comment"}
    outcome = hooks.submit(comment="nimo{deadline=uts1767261600,own=4} mine", min_nodes=1)
    assert (outcome.code, outcome.job) == (0, {"comment": "mine", "min_nodes": 1})
    assert outcome.messages == []


def command_line(hooks, *words):
    """Let the command be started with these words."""
    hooks.lua.globals().words = "\0".join([*words, ""])
    hooks.lua.execute("""
        local real = io.open
        io.open = function(path, ...)
          if path ~= "/proc/self/cmdline" then return real(path, ...) end
          return { read = function() return words end, close = function() end }
        end""")


@pytest.mark.parametrize(
    ("words", "listed"),
    [
        (["-N", "2,4,8"], True),
        (["-N2,4,8"], True),
        (["-vN", "2-8:2"], True),
        (["--nodes=2,4,8"], True),
        (["--nodes", "2,4,8"], True),
        (["-N", "2-8"], False),
        (["-N2-8", "-t", "10:00", "-w", "1,2"], False),
        (["--nodes=2-8", "--array", "2,4"], False),
    ],
)
def test_listed_node_counts_reach_nimod_as_such(both, words, *, listed):
    command_line(both, "sbatch", *words, "job.sh")
    options = both.filter(type="sbatch", nodes="2-8", comment="mine")
    assert options["comment"] == ("nimo{deadline=,sizes=1,own=4} mine" if listed else "mine")
    assert (both.lua.eval("package.loaded.nimo_filter") is None) is (words == ["-N", "2-8"])
    both.answer({"v": 1})
    submitted = both.submit(comment=options["comment"], min_nodes=2, max_nodes=8).job
    assert (submitted["comment"], "node_sizes" in both.asked()[-1]["job"]) == ("mine", listed)
