"""The hooks against nimod and cli_filter of other releases, and beside a site's own hook."""

import re
from pathlib import Path

import pytest

from tests.messages import RELEASES, recorded, with_news

REQUEST = {"min_nodes": 1, "max_nodes": 16, "time_limit": 262, "script": "#!/bin/sh\n"}
PARTITIONS = {"batch": {"flag_default": 1, "total_nodes": 32, "max_time": 600}}
of_each_release = pytest.mark.parametrize("path", RELEASES, ids=lambda path: path.stem)


@of_each_release
def test_answers_of_other_releases_are_carried_out(hooks, path):
    answer = recorded(path)["answers"]["decide"]
    for reported in (answer, with_news(answer)):
        hooks.answer(reported)
        outcome = hooks.submit(partitions=PARTITIONS, **REQUEST)
        assert outcome.log == []
        assert (outcome.job["min_nodes"], outcome.job["max_nodes"]) == (4, 4)
        assert outcome.job["admin_comment"] == answer["admin_comment"]


@of_each_release
def test_what_cli_filter_of_other_releases_forwards_arrives(hooks, path):
    hooks.answer({"v": 1})
    for forwarded in recorded(path)["forwarded"]:
        later = forwarded.replace(",own=", ",later=1,own=")  # what it may forward some day
        for comment in (forwarded, later):
            outcome = hooks.submit(comment=comment)
            assert outcome.job["comment"] == "nimo:app=cfd"
            assert hooks.asked()[-1]["job"]["deadline"] == "uts1767261600"
    assert recorded(path)["forwarded"][-1].count("ticket=") == 1


def test_an_answer_of_a_version_too_far_away_changes_nothing(hooks):
    hooks.answer({"v": 99, "ok": False, "error": "version 1; nimod speaks 99"})
    outcome = hooks.submit(partitions=PARTITIONS, **REQUEST)
    assert (outcome.code, outcome.writes) == (0, [])
    assert "version 99" in outcome.log[0]


SITES_OWN = """
function slurm_job_submit(job_desc, partitions, submit_uid)
  if job_desc.name == "bad" then return slurm.ERROR end
  job_desc.account = "checked"
  return slurm.SUCCESS
end
function slurm_job_modify() return 7 end
"""


@pytest.fixture
def own(runtime):
    """A site's own hook, with the lines of docs/install.md at its end."""
    page = Path(__file__).parents[2] / "docs" / "install.md"
    (lines,) = re.findall(r"^```lua\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    hooks = runtime()
    ours = hooks.folder / "job_submit.lua"
    ours.rename(hooks.folder / "nimo_job_submit.lua")
    ours.write_text(SITES_OWN + lines.replace("/etc/slurm", str(hooks.folder)))
    return hooks


def test_a_sites_own_hook_goes_first_and_ours_after_it(own):
    own.load().answer(recorded(RELEASES[-1])["answers"]["decide"])
    outcome = own.submit(partitions=PARTITIONS, **REQUEST)
    assert (outcome.job["account"], outcome.job["min_nodes"]) == ("checked", 4)
    assert own.submit(name="bad").code == -1
    assert len(own.asked()) == 1
    assert own.lua.eval("slurm_job_modify()") == 7


def test_a_sites_own_hook_goes_on_without_ours(own):
    (own.folder / "nimo_job_submit.lua").unlink()
    outcome = own.load().submit(partitions=PARTITIONS, **REQUEST)
    assert (outcome.code, outcome.job["account"]) == (0, "checked")
    assert outcome.job["min_nodes"] == 1


def read(runtime, text):
    hooks = runtime()
    path = hooks.folder / "other.conf"
    path.write_text(text)
    result = hooks.lua.execute(f"""
        package.path = "{hooks.folder}/?.lua;" .. package.path
        local settings, complaints = require("nimo_settings").read("{path}")
        return {{ settings = settings, complaints = complaints }}""")
    return dict(result.settings.items()), list(result.complaints.values())


def test_values_take_the_type_of_their_default(runtime):
    settings, complaints = read(
        runtime, "# comment\n\nsocket = /run/x y.sock \n timeout_ms=7.5\nforward_deadline = yes\n"
    )
    assert complaints == []
    assert (settings["socket"], settings["timeout_ms"]) == ("/run/x y.sock", 7.5)
    assert settings["forward_deadline"] is True
    assert settings["breaker_s"] == 30


@pytest.mark.parametrize(
    "line",
    [
        *("timeout_ms = fast", "timeout_ms = -1", "timeout_ms = 1e999", "forward_deadline = true"),
        *("forward_deadline =", "sockt = /x", "socket =", "socket", "os.execute('x')"),
    ],
)
def test_bad_lines_are_named_and_leave_the_defaults(runtime, line):
    defaults, _ = read(runtime, "")
    settings, complaints = read(runtime, f"breaker_s = 30\n{line}\n")
    assert settings == defaults
    assert len(complaints) == 1
    assert f":2: not understood: {line}" in complaints[0]


def test_no_setting_lifts_the_hooks_own_limits(runtime):
    settings, complaints = read(runtime, "timeout_ms = 5000\nleast_limit_share = 1.5\n")
    assert (settings["timeout_ms"], settings["least_limit_share"]) == (100, 1)
    assert len(complaints) == 2
    assert any("timeout_ms is 100 at most" in complaint for complaint in complaints)


def test_bad_settings_are_logged_when_the_hook_is_loaded(runtime):
    hooks = runtime("timeout_ms = soon").load()
    assert "timeout_ms = soon" in hooks.stub.log[1]
