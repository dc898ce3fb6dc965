import pytest

from slurm_plugin.formatting import short_clock
from slurm_plugin.protocol import Advice, Row, WaitShares
from slurm_plugin.reports import advice_text as text


def row(nodes: int, **more: object) -> Row:
    time_s = 3600.0 / nodes + 60
    return Row(
        nodes=nodes,
        time_s=time_s,
        low_s=0.9 * time_s,
        high_s=1.1 * time_s,
        speedup=3660 / time_s,
        efficiency=3660 / time_s / nodes,
        node_hours=nodes * time_s / 3600,
        **more,  # type: ignore[arg-type]
    )


def advice(**more: object) -> Advice:
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
    return Advice(**(given | more))  # type: ignore[arg-type]


def body(rendered: str) -> list[list[str]]:
    """Fields of the table's lines."""
    block = rendered.split("\n\n")[1].splitlines()[1:]
    return [line.split() for line in block]


def test_the_selection_tells_the_story() -> None:
    assert [r.nodes for r in text.readable(advice().rows, observe=10)] == [1, 2, 3, 4, 6, 8, 10, 11]


def test_an_empty_selection_is_empty() -> None:
    assert text.readable([]) == []


def test_the_recommended_row_alone_is_marked() -> None:
    lines = body(text.render(advice(), now_s=0))
    assert [line[1] for line in lines if line[0] == "=>"] == ["6"]


def test_every_shows_all_counts() -> None:
    lines = body(text.render(advice(), now_s=0, every=True))
    assert len(lines) == 11


def test_figures_of_a_row() -> None:
    lines = body(text.render(advice(), now_s=0))
    assert lines[0] == [
        "1",
        "01:01:00",
        "00:54:54",
        "to",
        "01:07:06",
        "1.0",
        "100",
        "%",
        "1.0",
        "observed",
    ]


def test_the_last_line_can_be_pasted() -> None:
    assert text.render(advice(), now_s=0).splitlines()[-1] == "#SBATCH --nodes=6"


def test_wait_and_end_are_shown_where_the_wait_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [row(2, wait_s=120.0)]
    rendered = text.render(advice(rows=rows), now_s=1_000_000.0)
    header, line = rendered.split("\n\n")[1].splitlines()
    assert header.split()[-2:] == ["wait", "ends"]
    assert "00:02:00" in line
    assert line.endswith(short_clock(1_000_000 + 120 + 1860))


def test_without_waits_there_is_no_such_column() -> None:
    assert "wait" not in text.render(advice(), now_s=0)


@pytest.mark.parametrize(
    ("meets", "words"),
    [(True, "can be made"), (None, "is not known")],
)
def test_deadline_in_words(meets: bool | None, words: str) -> None:
    rendered = text.render(advice(deadline_s=1_800_000_000.0, meets_deadline=meets), now_s=0)
    assert words in next(
        line for line in rendered.splitlines() if "The deadline" in line or "Whether" in line
    )


def test_what_stands_in_the_way_of_a_deadline_is_told() -> None:
    told = "This job is not expected to make its deadline."
    rendered = text.render(
        advice(deadline_s=1_800_000_000.0, meets_deadline=False, deadline_text=told), now_s=0
    )
    assert rendered.count(told) == 1


def test_unknown_application_gives_no_table_and_no_directive() -> None:
    unknown = Advice(verdict="unknown", verdict_text="Not enough is known.", reason="unknown")
    rendered = text.render(unknown, now_s=0)
    assert rendered.startswith("this job: no run of it is known")
    assert "#SBATCH" not in rendered


def test_how_waits_came_true_is_said_where_it_is_known() -> None:
    held = WaitShares(jobs=40, within_s=120.0, later=0.1)
    told = text.render(advice(waits=held), now_s=0.0)
    assert "Waits like this one came true within 00:02:00 for 80 % of 40 jobs." in told
    assert "came true" not in text.render(advice(), now_s=0.0)


def test_slurms_starts_are_shown_as_wait_and_run() -> None:
    known = advice()
    assert text.render_starts(known, now_s=0.0) == ""
    known.rows[0].slurm_wait_s = 300.0
    told = text.render_starts(known, now_s=0.0)
    assert "00:05:00" in told
    assert short_clock(300.0 + known.rows[0].time_s) in told
    assert len(told.splitlines()) == 4
