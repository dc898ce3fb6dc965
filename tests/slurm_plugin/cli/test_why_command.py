"""``nimo why`` of a job that no ingest has read yet."""

from datetime import datetime

from slurm_plugin.cli.commands import why
from slurm_plugin.cli.nimo import main
from slurm_plugin.nimod import client
from slurm_plugin.protocol.query_messages import Explanation
from slurm_plugin.protocol.request_messages import Ask
from slurm_plugin.slurm import commands
from tests.slurm_plugin.reports.rows import decision

SHOWN = """JobId=17 JobName=my job
   UserId=ada(1000) GroupId=ada(1000) MCS_label=N/A
   SubmitTime=2026-09-21T14:13:20 EligibleTime=2026-09-21T14:13:20
   WorkDir=/home/ada/run 1
"""


def test_why_asks_by_what_scontrol_shows_and_once_more_where_nothing_is_written_yet(
    monkeypatch, capsys
):
    asked: list[object] = []

    def explain(_: object, ask: Ask, *__: object) -> Explanation:
        job = ask.job
        asked.append((job.user_name, job.name, job.work_dir, ask.selection.since_s))
        return Explanation(decision=decision() if len(asked) > 1 else None)

    monkeypatch.setattr(why, "is_meant", lambda _: False)
    monkeypatch.setattr(commands, "run", lambda *_, **__: SHOWN)
    monkeypatch.setattr(client, "exchange", explain)
    assert main(["why", "17"]) == 0
    when = datetime.fromisoformat("2026-09-21T14:13:20").timestamp()
    assert asked == [("ada", "my job", "/home/ada/run 1", when)] * 2
    assert "Job 17 (ada/wrf) asked for" in capsys.readouterr().out
