"""What users see of their own: the first page, jobs that wait or failed, waste."""

import re
import time
from dataclasses import replace

from predictor.facts import Failures
from predictor.memory import Memory
from predictor.refit import row_of
from sacct_ingest.records import JobState
from sacct_ingest.runs.layout import Each, Layout, Unit
from sacct_ingest.store import Store
from slurm_plugin.protocol.status_messages import WaitRow, Waits
from slurm_plugin.reports.pending_text import EditRow, PendingAnswer
from slurm_plugin.web.data import Service
from tests.sacct_ingest.records import run
from tests.slurm_plugin.made import table
from tests.slurm_plugin.web.conftest import joined, own
from tests.slurm_plugin.web.pages import Tags


def test_a_user_begins_with_what_is_the_users_own(ask, store_path):
    asked = {
        "many.sh": {"nodes": 4, "cpus": 16, "req_mem_bytes": 4 << 34},
        "serial.sh": {"nodes": 1, "cpus": 8, "tasks": 1},
    }
    with Store.open(str(store_path)) as store:
        for i, (name, given) in enumerate(asked.items(), 60):
            line = f"sbatch {name}"
            store.runs.add([run(job_id=i, name=name, submit_line=line, limit_s=43_200, **given)])
        keys = {row.name: row.line for row in store.runs.newest(9)}
        known = {"owner": "ada", "runs": 30, "last_s": 9e9}
        many = table(level="line", key=keys["many.sh"], label="ada/many", **known)
        many = replace(many, memory=(Memory(1, 2**30), Memory(32, 2**30)))
        one_task = Layout(1, each=Each.JOB, nodes=1)
        serial = replace(many, key=keys["serial.sh"], unit=Unit.CPUS, layout=one_task)
        store.fits.replace([row_of(one) for one in (many, serial)])
    starts = WaitRow(job_id=77, user="ada", name="wrf", partition="batch", nodes=4, start_s=2e9)
    waits = Waits(made_s=time.time() - 720, rows=[starts, WaitRow(job_id=78, user="bob")])
    service = Service(waits=lambda user: waits if user == "ada" else Waits())
    text = Tags(ask("/", "ada", own("ada"), service=service).text).text
    assert re.search(r"#SBATCH --nodes=\d+ --mem=\d+M", text)
    assert re.search(r"#SBATCH --cpus-per-task=\d+", text)
    for words in ("My jobs", "Queue forecast updated 12 min ago", "77", "nimo-advise job.sh"):
        assert words in text
    assert "78" not in text
    assert "bob" not in text
    trouble = Service(waits=lambda _: Waits(error="nimod does not answer"))
    assert "nimod does not answer" in ask("/mine", service=trouble).text


def test_users_see_how_long_their_jobs_take_that_never_ran_and_that_it_is_a_guess(ask):
    times = {"guess_s": 540.0, "guess_low_s": 258.0, "guess_high_s": 3600.0}
    rows = [
        WaitRow(job_id=77, user="ada", name="<new>", **times),
        WaitRow(job_id=78, user="ada", name="known"),
        WaitRow(job_id=79, user="bob", name="his", **times),
    ]
    service = Service(waits=lambda _: Waits(made_s=time.time(), rows=rows))
    text = " ".join(Tags(ask("/mine", "ada", own("ada"), service=service).text).text.split())
    wanted = "How long they take job name takes about at least at most 77 <new> 9 min 4.3 min 1 h"
    assert wanted in text
    assert "Their commands never ran: guesses from the jobs most like them." in text
    assert "his" not in text.partition("How long they take")[2].partition("My last decisions")[0]
    none = Service(waits=lambda _: Waits(made_s=time.time(), rows=rows[1:2]))
    assert "never ran" not in Tags(ask("/mine", "ada", own("ada"), service=none).text).text


def test_users_see_why_their_own_jobs_wait_and_what_would_help(ask):
    edit = EditRow(
        argv=["scontrol", "update", "JobId=77", "TimeLimit=01:29:00"],
        what="with a time limit of <1.5 h>",
        start_s=0.0,
        gain_s=2400.0,
        gain_low_s=600.0,
        gain_high_s=3900.0,
        chance=0.8,
    )
    sentence = "it is <b>next</b>"
    adas = PendingAnswer(job_id=77, name="wrf", sentence=sentence, start_s=2e9, edits=[edit])
    hers_no_more = PendingAnswer(job_id=78, sentence="of bob", may_change=False)
    asked = []

    def waiting(user):
        asked.append(user)
        return [adas, hers_no_more] if user == "ada" else []

    service = Service(waiting=waiting)
    for page in ("/mine", "/queue"):
        answer = ask(page, "ada", own("ada"), service=service).text
        text = Tags(answer).text
        assert "it is <b>next</b>" in text
        assert "with a time limit of <1.5 h>: it starts at once, about 40 min sooner" in text
        assert "(10 min to 1.1 h), 80 % certain" in text
        assert "scontrol update JobId=77 TimeLimit=01:29:00" in text
        assert "of bob" not in text
        others = Tags(ask(page, "bob", own("bob"), service=service).text).text
        assert "TimeLimit" not in others
        assert "<b>next</b>" not in others
    assert set(asked) == {"ada", "bob"}


def test_runs_that_failed_stand_first_on_the_page_of_their_user_alone(ask, store_path):
    failures = Failures(5, 5, 9, 3.0, 3.0, 2, 299)
    with Store.open(str(store_path)) as store:
        failing = table(level="line", key="f", label="ada/solve", owner="ada", failures=failures)
        store.fits.replace([row_of(failing)])
    text = Tags(ask("/mine", "ada", own("ada")).text).text
    words = "The last 5 runs failed after 3 s (exit 2); the last output was in slurm-299.out."
    assert text.index("My jobs") < text.index(words) < text.index("What to ask for")
    assert "failed after" not in Tags(ask("/mine", "bob", own("bob")).text).text


def test_the_page_of_a_user_says_what_failed_then_what_to_ask_for_then_what_waits(ask, store_path):
    """The page as a whole: headings, sentences and cells, in the order in which they are read."""
    some = Failures(0, 3, 9, 3.0, 90.0, 1, 300)
    row = Failures(5, 5, 9, 3.0, 3.0, 2, 299)
    with Store.open(str(store_path)) as store:
        made = [
            table(level="line", key=key, label=f"ada/{key}", owner="ada", failures=failures)
            for key, failures in (("align", some), ("fold", None), ("solve", row))
        ]
        store.fits.replace([row_of(each) for each in made])
    waits = Waits(
        made_s=time.time() - 60,
        rows=[WaitRow(job_id=77, user="ada", name="wrf", partition="batch", nodes=4, start_s=2e9)],
    )
    shown = Tags(ask("/mine", "ada", own("ada"), service=Service(waits=lambda _: waits)).text)
    text = " ".join(shown.text.split())
    text = text[text.index("sees own jobs") :].removeprefix("sees own jobs ")
    # Moments are the clock's.
    text = re.sub(r"\d\d-\d\d \d\d:\d\d", "MM-DD hh:mm", text)
    expected = """
My jobs
ada/solve: The last 5 runs failed after 3 s (exit 2); the last output was in slurm-299.out.
ada/align: 3 of the last 9 runs failed after 3 s to 1.5 min (exit 1); the last output was in
slurm-300.out.
What to ask for
What the next job of each application should ask for
application runs count takes about line to paste
ada/align 10 - - not enough runs yet
ada/fold 10 - - not enough runs yet
ada/solve 10 - - not enough runs yet
"""
    assert text.startswith(" ".join(expected.split()))
    waiting = """
My waiting jobs
Queue forecast updated 1 min ago.
When they start
job partition name nodes starts not before by reason
77 batch wrf 4 MM-DD hh:mm - -
Half of such jobs have started by "starts", nine in ten between "not before" and "by".
"""
    assert " ".join(waiting.split()) in text
    order = [
        text.index(words) for words in ("My waiting jobs", "My last decisions", "A new script")
    ]
    assert order == sorted(order)
    assert not re.search(r"\bNone\b|\bnan\b|[a-z]_[a-z]", text)


def test_users_see_what_of_their_own_node_hours_bought_nothing(ask, store_path, monkeypatch):
    joined(store_path, user="ada", state=JobState.NODE_FAIL, elapsed_s=3600.0)
    text = Tags(ask("/mine", "ada", own("ada")).text).text
    said = "Last 30 days: 100 % of your 4.0 node-hours bought nothing; no record says that any"
    assert said in " ".join(text.split())
    assert "bought nothing" not in ask("/mine", "bob", own("bob")).text
    monkeypatch.setattr("slurm_plugin.web.data._WASTE_RUNS", 0)
    assert "bought nothing" not in ask("/mine", "ada", own("ada")).text
