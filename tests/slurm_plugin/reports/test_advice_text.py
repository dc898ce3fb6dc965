import time
from dataclasses import replace

import pytest

from sacct_ingest.runs.layout import Unit
from slurm_plugin.protocol.advice_messages import Advice, LayoutRow, PartitionRow, Row
from slurm_plugin.protocol.wait_shares import WaitShares
from slurm_plugin.reports import advice_text as text
from slurm_plugin.reports.advice_text import for_command
from slurm_plugin.text.formatting import short_clock
from slurm_plugin.text.table_columns import TableOptions
from tests.slurm_plugin.reports.rows import advised


def row(nodes, **more):
    time_s = 3600.0 / nodes + 60
    return Row(
        nodes=nodes,
        time_s=time_s,
        low_s=0.9 * time_s,
        high_s=1.1 * time_s,
        speedup=3660 / time_s,
        efficiency=3660 / time_s / nodes,
        node_hours=nodes * time_s / 3600,
        **more,
    )


def advice(**more):
    rows = [row(n, observed=n in (1, 3), recommended=n == 6) for n in range(1, 12)]
    given = {
        "application": "wrf",
        "key_level": "line",
        "verdict": "reliable",
        "verdict_text": "The prediction is reliable.",
        "confidence": 0.9,
        "runs": 12,
        "rows": rows,
        "nodes": 6,
        "directive": "#SBATCH --nodes=6",
        "reason": "6 nodes end first.",
    }
    return Advice(**(given | more))


def table_of(rendered):
    """Lines of the table, that of its titles first."""
    blocks = [block.splitlines() for block in rendered.split("\n\n")]
    return next(block for block in blocks if "run time" in block[0])


def body(rendered):
    """Fields of the table's lines."""
    return [line.split() for line in table_of(rendered)[1:]]


def counts(rendered):
    return [int(line[line[0] == "◆"]) for line in body(rendered)]


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ({}, [3, 4, 6, 8, 11]),
        ({"observe": 10}, [3, 4, 6, 8, 10]),
        ({"asked": 1}, [1, 3, 4, 6, 8]),
        (
            {"asked": 1, "rows": [row(n, recommended=n == 11) for n in range(1, 12)]},
            [1, 2, 4, 8, 11],
        ),
        ({"rows": [row(n, recommended=n == 11) for n in range(1, 12)]}, [1, 2, 4, 8, 11]),
        ({"rows": [row(4, recommended=True)]}, [4]),
    ],
)
def test_the_table_shows_the_counts_around_the_answer(given, shown):
    assert counts(advised(advice(**given), now_s=0)) == shown


def test_how_many_counts_there_are_is_said_below_the_table():
    assert "wrf, 12 runs.  5 of 11 counts are shown; --all shows all." in advised(advice(), now_s=0)
    assert "--all" not in advised(advice(), now_s=0, every=True)


def test_counts_that_wait_longer_than_a_larger_one_are_named():
    def shown(waits, **how):
        rows = [row(n, wait_s=s, observed=n != 5) for n, s in waits.items()]
        return advised(advice(rows=rows), now_s=0, verbose=True, **how)

    longer = shown({1: 60.0, 2: 60.0, 3: 9000.0, 4: 9000.0, 6: 9000.0, 8: 900.0}, every=True)
    assert "On 3 to 6 nodes the wait is longer than on 8: the time limit does not fit" in longer
    # The count beside it is one that the table shows.
    assert "On 4 nodes the wait is longer than on 8:" in shown({4: 9000.0, 5: 60.0, 8: 900.0})
    assert "wait is longer" not in shown({n: 600.0 * n for n in (1, 2, 8)})


def test_the_limit_of_each_count_is_a_column_where_there_is_room():
    limited = advice(rows=[row(n, limit_s=3600.0 / n) for n in (1, 2)])
    assert " limit" in table_of(advised(limited, now_s=0, width=140))[0]
    waits = [row(n, wait_s=9.0, limit_s=3600.0 / n) for n in (1, 2)]
    titles = table_of(advised(advice(rows=waits), now_s=0, width=66))[0]
    assert (" limit" in titles, "node-hours" in titles) == (True, False)
    assert "limit" not in table_of(advised(advice(), now_s=0, width=140))[0]


def test_the_recommended_row_alone_is_marked():
    lines = body(advised(advice(), now_s=0))
    assert [line[1] for line in lines if line[0] == "◆"] == ["6"]


def test_every_shows_all_counts():
    lines = body(advised(advice(), now_s=0, every=True))
    assert len(lines) == 11


def test_figures_of_a_row():
    lines = body(advised(advice(), now_s=0, width=200, every=True))
    assert lines[0] == [
        "1",
        "1",
        "h",
        "55",
        "min",
        "to",
        "1.1",
        "h",
        "1.0",
        "100",
        "%",
        "1.0",
        "observed",
    ]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "About 11 min on 6 nodes (9 of 10 runs: 9.9 to 12 min). Ask for:"),
        (
            {"verdict": "doubtful", "confidence": 0.95},
            "About 11 min on 6 nodes, doubtful (95 % of runs: 9.9 to 12 min). Ask for:",
        ),
        ({"partition": "fast"}, "About 11 min on 6 nodes in partition fast (9 of 10 runs: 9.9"),
    ],
)
def test_the_first_line_is_the_answer_and_the_second_can_be_pasted(given, said):
    first, second = advised(advice(**given), now_s=0).splitlines()[:2]
    assert first.startswith(said)
    assert second.startswith("#SBATCH --nodes=6") or "partition" in given


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"wait_s": 5.0}, "); starts at once. Ask for:"),
        ({"wait_s": 900.0}, "); starts in about 15 min. Ask for:"),
        ({"wait_s": 900.0, "wait_bound": True}, "); starts within 15 min. Ask for:"),
        ({"unbounded": True}, "Over 9.9 min on 6 nodes. Ask for:"),
    ],
)
def test_the_answer_says_when_it_starts(given, said):
    rows = [row(6, recommended=True, **given)]
    assert advised(advice(rows=rows), now_s=0, width=120).splitlines()[0].endswith(said)


def test_without_anything_to_paste_the_answer_is_about_what_is_asked_for():
    kept = advice(directive="", nodes=None, asked=4, reason="It asks for one count.")
    kept.rows[5].recommended = False
    first, second = advised(kept, now_s=0, width=120).split("\n\n")[:2]
    assert first == "About 16 min on 4 nodes (9 of 10 runs: 14 to 18 min)."
    assert second == "It asks for one count."


def test_two_sentences_and_the_reason_of_a_doubt_are_printed_and_all_with_verbose():
    given = {
        "comment_text": "The tag has a fault.",
        "limit_text": "Two of three runs reached the limit.",
        "problems": ["A new place."],
        "verdict": "doubtful",
    }
    brief = advised(advice(**given), now_s=0).split("\n\n")
    matters = "The tag has a fault.\nTwo of three runs reached the limit."
    assert brief[1] == f"{matters}\nA new place."
    sure = advised(advice(**given | {"verdict": "reliable"}), now_s=0).split("\n\n")
    assert sure[1] == matters
    every = advised(advice(**given), now_s=0, verbose=True).split("\n\n")
    assert every[1].splitlines()[2:4] == ["A new place.", "6 nodes end first."]


def test_wait_and_end_are_shown_where_the_wait_is_available(monkeypatch):
    rows = [row(2, wait_s=120.0), row(4, wait_s=900.0, wait_bound=True)]
    rendered = advised(advice(rows=rows), now_s=1_000_000.0)
    header, line, bound = table_of(rendered)
    assert header.split()[-2:] == ["wait", "ends"]
    assert " 2 min " in line and " <15 min " in bound
    assert line.endswith(f"  {short_clock(1_000_000 + 120 + 1860)}")
    assert bound.endswith(f" by {short_clock(1_000_000 + 900 + 960)}")


def test_without_waits_there_is_no_such_column():
    assert "wait" not in advised(advice(), now_s=0)


@pytest.mark.parametrize(("meets", "words"), [(True, "can be made"), (None, "cannot tell whether")])
def test_deadline_in_words(meets, words):
    rendered = advised(advice(deadline_s=1_800_000_000.0, meets_deadline=meets), now_s=0)
    assert words in next(
        line for line in rendered.splitlines() if "The deadline" in line or "whether" in line
    )


def test_what_stands_in_the_way_of_a_deadline_is_reported():
    reported = "This job is not expected to make its deadline."
    rendered = advised(
        advice(deadline_s=1_800_000_000.0, meets_deadline=False, deadline_text=reported), now_s=0
    )
    assert rendered.count(reported) == 1


def test_unknown_application_gives_no_table_and_no_directive():
    unknown = Advice(verdict="unknown", verdict_text="Not enough is known.", reason="unknown")
    rendered = advised(unknown, now_s=0, verbose=True)
    assert rendered.startswith("Not enough is known.\n")
    assert "this job: no finished run yet" in rendered
    assert "#SBATCH" not in rendered


def test_how_waits_came_true_is_said_where_it_is_available():
    held = WaitShares(jobs=40, within_s=120.0, later=0.1)
    reported = advised(advice(waits=held), now_s=0.0, verbose=True)
    assert "Of 40 jobs with a wait like this one, 80 % started within" in reported
    assert "a wait like" not in advised(advice(), now_s=0.0, verbose=True)
    assert "a wait like" not in advised(advice(waits=held), now_s=0.0)


def test_slurms_starts_are_shown_as_wait_and_run():
    recorded = advice()
    assert text.render_starts(recorded, now_s=0.0) == ""
    recorded.rows[0].slurm_wait_s = 300.0
    reported = text.render_starts(recorded, now_s=0.0)
    assert " 5 min " in reported
    assert short_clock(300.0 + recorded.rows[0].time_s) in reported
    assert len(reported.splitlines()) == 4


def test_it_is_short_unless_more_is_asked_for():
    long = advice(problems=["More on it.", "And more."], observe=5, size_text="Of six tasks.")
    short = advised(long, now_s=0)
    assert "More on it" not in short
    assert "recognised by" not in short
    reported = " ".join(advised(long, now_s=0, verbose=True).split())
    assert "More on it: one run on 5 nodes would make the prediction surer." in reported
    assert "And more. The prediction is reliable." in reported
    assert "wrf: 12 runs in the store, recognised by" in reported


def test_a_doubt_is_reported_with_its_reason():
    doubtful = advice(verdict="doubtful", problems=["A new place.", "And more."])
    assert "A new place.\n6 nodes end first." in advised(doubtful, now_s=0)


def test_without_a_recommendation_the_run_that_would_help_is_named():
    short = advised(advice(problems=["Two counts only."], observe=16, nodes=None), now_s=0)
    assert "one run on 16 nodes would make the prediction surer." in " ".join(short.split())


@pytest.mark.parametrize("width", [40, 60, 80, 100, 130])
def test_lines_fit_into_the_terminal(width):
    long = "word " * 40
    rows = [row(n, wait_s=9.0, observed=True, recommended=n == 6) for n in range(1, 12)]
    recorded = advice(rows=rows, reason=long, deadline_s=1_800_000_000.0, meets_deadline=True)
    reported = advised(recorded, now_s=0, width=width)
    assert max(map(len, reported.splitlines())) <= width
    assert "nodes  run time" in reported


def test_the_least_important_columns_go_first():
    rows = [row(n, wait_s=9.0) for n in range(1, 12)]
    titles = table_of(advised(advice(rows=rows), now_s=0))[0].split()
    assert "speedup" not in titles
    assert {"nodes", "node-hours", "wait", "ends"} <= set(titles)


def test_titles_can_be_left_out():
    reported = advised(advice(), now_s=0, options=TableOptions(header=False))
    assert "run time" not in reported


def test_a_guess_has_no_columns_of_scaling():
    assert "speedup" not in advised(advice(guess=True), now_s=0, width=200)


def test_a_guess_without_a_count_says_once_what_it_is_based_on():
    based = "Low confidence: based on 12 of your other jobs, not on this application."
    more = "Its first runs tell more."
    guess = advice(
        guess=True, verdict="doubtful", verdict_text=based, problems=[based, more],
        rows=[row(1)], nodes=None, asked=None, directive="", reason="",
    )  # fmt: skip
    said = " ".join(advised(guess, now_s=0, width=200).split())
    assert said.lower().count(based.lower()) == 1
    assert more not in said  # one sentence; -v has the rest
    assert more in " ".join(advised(guess, now_s=0, width=200, verbose=True).split())


def test_layouts_stand_side_by_side_in_the_unit_of_the_table():
    def laid_out(tasks, *, own):
        options = f"--nodes=1 --ntasks={tasks} --cpus-per-task={16 // tasks}"
        return LayoutRow(
            layout=f"{tasks} tasks in all on 1 node",
            options=options,
            size=16,
            time_s=60.0 * tasks,
            low_s=50.0 * tasks,
            high_s=70.0 * tasks,
            size_hours=16 * tasks / 60,
            verdict="doubtful",
            own=own,
        )

    rows = [laid_out(2, own=True), laid_out(4, own=False)]
    shown = advised(advice(unit=Unit.CPUS, layouts=rows), now_s=0.0, width=140)
    assert "Laid out otherwise, on 16 CPUs" in shown
    assert "CPU-hours" in shown
    (own,) = [line for line in shown.splitlines() if "this job" in line]
    assert "--nodes=1 --ntasks=2 --cpus-per-task=8" in own
    assert "2 tasks in all on 1 node" in own


def test_what_makes_a_deadline_is_counted_in_the_unit_of_the_table():
    rows = [row(8, chance=0.97)]
    made = advice(
        unit=Unit.CPUS, rows=rows, cheapest_sure=8, sure=0.95, deadline_s=9e8, meets_deadline=True
    )
    shown = advised(made, now_s=0.0)
    assert "8 CPUs make it" in " ".join(shown.split())
    assert "fewest CPU-hours" in " ".join(shown.split())


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (3, "It ends 10 min sooner than on 3, for 0.05 node-hours more (97 % certain that it ends"),
        (10, "later than on 10, for 0.067 node-hours less (95 % certain: at most 5 min later)."),
    ],
)
def test_the_chance_is_told_of_a_count_that_ends_sooner(asked, said):
    made = [row(n, recommended=n == 6, no_later=0.97, later_s=300.0) for n in range(1, 12)]
    assert said in advised(advice(rows=made, asked=asked), now_s=0, width=200)


ADVICE = Advice(
    verdict="reliable",
    verdict_text="The prediction is reliable.",
    nodes=6,
    directive="#SBATCH --nodes=6",
    time_directive="#SBATCH --time=01:00:00 --time-min=00:57:00",
    reason="This count costs least.",
)


def lines(advice, *typed):
    return advised(for_command(advice, typed), now_s=0.0).splitlines()


def test_a_wrapped_command_has_no_script_to_paste_into():
    words = "--nodes=6 --time=01:00:00 --time-min=00:57:00"
    assert lines(ADVICE, "wrap", "nodes")[1] == words
    elsewhere = replace(ADVICE, directive="#SBATCH --partition=fast\n#SBATCH --nodes=6")
    assert lines(elsewhere, "wrap")[1] == f"--partition=fast {words}"
    kept = replace(ADVICE, nodes=None, directive="", reason="It asks for one count.")
    assert lines(kept, "wrap")[1:] == [words.partition(" ")[2], "", "It asks for one count."]


def test_options_of_the_command_line_outrank_the_script():
    first = lines(ADVICE, "nodes", "partition")
    assert first[1:3] == [ADVICE.directive, ADVICE.time_directive]
    assert first[4] == "--nodes of the command line outranks the script: change or drop it."
    assert lines(ADVICE, "time", "nodes")[4].endswith(" outrank the script: change or drop them.")


def test_other_options_change_nothing():
    assert for_command(ADVICE, ["partition", "deadline"]) is ADVICE
    empty = Advice(verdict="unknown", verdict_text="Not enough is known.")
    assert for_command(empty, ["wrap", "nodes"]) is empty


def test_what_sbatch_will_do_instead_is_always_said():
    words = {"time_text": "After 2 runs: too few.", "limit_text": "A limit ended runs."}
    advice = Advice(submit_text="As it is, sbatch will run this on 5 nodes.", **words)
    shown = "\n".join(text.render(advice, now_s=0.0))
    for said in (advice.submit_text, *words.values()):
        assert said in shown


def place(name, **fields):
    usual = {
        "nodes": 16, "time_s": 3720.0, "low_s": 3300.0, "high_s": 4100.0, "wait_s": 540.0,
        "end_low_s": 3900.0, "end_high_s": 6200.0, "node_hours": 16.5, "cost": 33.1, "kwh": 7.2,
        "verdict": "reliable", "runs": 12,
    }  # fmt: skip
    return PartitionRow(partition=name, **{**usual, **fields})


PLACES = """\

   partition  nodes  run time             ends (90 %)   EUR  kWh  verdict
   batch         16       1 h  09:26 (09:20 to 09:58)  33.1  7.2  reliable
◆  gpu           16       1 h  09:26 (09:20 to 10:10)  33.1  7.2  reliable
   oldest        16       1 h                   09:37  33.1  7.2  doubtful
   closed         -         -                       -     -    -  not measured

wrf, 3 runs."""
OF_TYPES = """\

   partition  GPUs  nodes  run time                   ends (90 %)  verdict
   batch               16       1 h        09:26 (09:20 to 09:58)  reliable
◆  gpu        A100     16       1 h  09:26 (09:20 to 12-01 09:15)  reliable

wrf, 3 runs."""


@pytest.fixture
def in_utc(monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("in_utc")
def test_places_show_the_interval_of_their_ends_in_eighty_columns():
    now_s = 1796026500.0  # 11-30 08:15
    rows = [
        place("batch", own=True),
        place("gpu", recommended=True, end_high_s=6900.0),
        place("oldest", wait_s=1200.0, end_low_s=None, verdict="doubtful"),
        PartitionRow(partition="closed", verdict="not measured"),
    ]
    advice = Advice(application="wrf", runs=3, currency="EUR", partitions=rows)
    assert advised(advice, now_s=now_s, width=80) == PLACES
    rows[1].gpu_type, rows[1].end_high_s = "A100", 90_000.0
    advice.partitions = rows[:2]
    assert advised(advice, now_s=now_s, width=80) == OF_TYPES
