"""Smaller windows and longer pauses while slurmdbd is slow; ingests for ever, through outages."""

import logging
from dataclasses import dataclass, field
from math import isclose

import pytest

from sacct_ingest.errors import ConfigError, SacctError, SacctOverload, StoreError
from sacct_ingest.ingest.into_store import FollowSettings, IngestSettings, follow, ingest
from sacct_ingest.ingest.windows import NARROWEST_S, Pace, PaceSettings, SpanSettings
from sacct_ingest.records import JobState, KeyLevel
from sacct_ingest.sources.saved import SavedSacct
from tests.sacct_ingest.records import runs_with

DAY_S = 86_400
SETTINGS = PaceSettings(window_s=DAY_S, slow_s=20, share=0.25)


@dataclass
class Time:
    """A clock that only moves when somebody waits."""

    now_s: float = 1000.0
    paused_s: float = 0.0

    def clock(self):
        return self.now_s

    def pause(self, seconds):
        self.now_s += seconds
        self.paused_s += seconds


@dataclass
class SlowAccounting:
    """Takes its time, in proportion to what it is asked for, and refuses too much."""

    time: Time
    seconds_a_day: float
    refuses_above_s: int = 2**60
    asked: list[int] = field(default_factory=list)
    name: str = "sacct:pine"
    windowed: bool = True

    def read(self, begin_s, end_s, tally):
        self.asked.append(end_s - begin_s)
        took_s = self.seconds_a_day * (end_s - begin_s) / DAY_S
        self.time.now_s += took_s
        tally.waited_s += took_s
        if end_s - begin_s > self.refuses_above_s:
            raise SacctOverload("Too wide of a date range in query")
        yield from ()


def load(store, source, days):
    pace = Pace(SETTINGS, clock=source.time.clock, pause=source.time.pause)
    span = SpanSettings(first_s=days * DAY_S)
    ingest(store, source, now_s=400 * DAY_S, settings=IngestSettings(span=span), pace=pace)


def test_slurmdbd_works_for_us_a_quarter_of_the_time_at_most(sqlite_store):
    source = SlowAccounting(Time(), seconds_a_day=4)
    load(sqlite_store, source, days=10)
    assert source.asked == [DAY_S] * 10
    worked_s = 40
    # Nobody waits after the last window.
    assert isclose(source.time.now_s - 1000 + 12, worked_s / SETTINGS.share)


def test_our_own_work_counts_as_a_pause():
    time = Time()
    pace = Pace(SETTINGS, clock=time.clock, pause=time.pause)
    pace.ask()
    time.now_s += 5 + 100
    pace.rest(5)
    assert time.paused_s == 0


def test_windows_narrow_while_answers_are_slow_and_widen_again(sqlite_store):
    source = SlowAccounting(Time(), seconds_a_day=90)
    load(sqlite_store, source, days=3)
    assert source.asked[:4] == [DAY_S, DAY_S // 2, DAY_S // 4, DAY_S // 8]
    assert sum(source.asked) == 3 * DAY_S
    narrow = Pace(SETTINGS)
    for waited_s, width_s in [(50, DAY_S // 2), (10, DAY_S // 2), (1, DAY_S), (1, DAY_S)]:
        narrow.answered(waited_s)
        assert narrow.width_s == width_s


def test_what_is_refused_is_asked_for_in_parts(sqlite_store):
    source = SlowAccounting(Time(), seconds_a_day=1, refuses_above_s=DAY_S // 3)
    load(sqlite_store, source, days=2)
    assert source.asked[:3] == [DAY_S, DAY_S // 2, DAY_S // 4]
    answered = [width for width in source.asked if width <= source.refuses_above_s]
    assert sum(answered) == 2 * DAY_S


def test_what_is_refused_however_little_is_an_error(sqlite_store):
    source = SlowAccounting(Time(), seconds_a_day=1, refuses_above_s=0)
    with pytest.raises(SacctOverload):
        load(sqlite_store, source, days=2)
    assert min(source.asked) >= NARROWEST_S
    assert sqlite_store.watermarks.get(source.name) is None


HEADER = (
    "JobID|JobIDRaw|JobName|Cluster|User|State|Submit|Eligible|Start|End|ElapsedRaw|NNodes|ReqMem|"
    "SubmitLine\n"
)
_LINE = "sbatch --parsable -J resize -N2 run.sh"
#: As Slurm 22.05 and 24.11 print them; the first gives the rest the start of the whole job.
PARTS = {
    "22.05": (
        f"22|22|resize|pine|ada|RESIZING|1700001000|1700001000|1700001001|1700001010|9|2|4000M|{_LINE}\n",
        f"22|22|resize|pine|ada|COMPLETED|1700001010|1700001010|1700001001|1700001015|14|1|4000M|{_LINE}\n",
    ),
    "24.11": (
        f"22|22|resize|pine|ada|RESIZING|1700001000|1700001000|1700001001|1700001010|9|2|4000M|{_LINE}\n"
        "22.batch|22.batch|batch|pine||RESIZING|1700001001|1700001001|1700001001|1700001010|9|1||\n",
        f"22|22|resize|pine|ada|COMPLETED|1700001010|1700001010|1700001010|1700001015|5|1|0|{_LINE}\n",
    ),
}
OTHER = (
    "23|23|resize|pine|ada|COMPLETED|1700002000|1700002000|1700002001|1700002011|10|1|4000M|"
    f"{_LINE}\n"
)
#: The parts in one window, in two, and in two that are read in the wrong order.
ORDERS = ((0, 1), (0, None, 1), (1, None, 0))


@pytest.mark.parametrize("release", PARTS)
@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_the_rest_of_a_resized_job_is_recognised_as_its_own(store, tmp_path, release, order):
    texts = "".join("\0" if i is None else PARTS[release][i] for i in order).split("\0")
    for text in [*texts, OTHER, *texts]:
        (tmp_path / "sacct.txt").write_text(HEADER + text)
        ingest(store, SavedSacct(tmp_path / "sacct.txt"), now_s=1_700_003_000)
    rest, other = runs_with(store, KeyLevel.NAME, "ada/resize")
    assert (rest.submit_s, rest.state, rest.nodes) == (1_700_001_010, JobState.RESIZING, 1)
    assert (other.state, other.elapsed_s) == (JobState.COMPLETED, 10.0)


def test_reading_it_again_changes_nothing(sqlite_store, tmp_path):
    file = tmp_path / "sacct.txt"
    file.write_text(HEADER + "".join(PARTS["24.11"]) + OTHER)
    first = ingest(sqlite_store, SavedSacct(file), now_s=1_700_003_000)
    again = ingest(sqlite_store, SavedSacct(file), now_s=1_700_003_000)
    assert (first.new, first.changed, first.unfinished) == (2, 0, 0)
    assert (again.new, again.changed, again.same) == (0, 0, 2)


FOLLOWING = FollowSettings(every_s=600, first_retry_s=30, longest_s=100)


def rounds(*outcomes):
    """Follow once for each outcome; give the pauses."""
    left, pauses = list(outcomes), list[float]()

    def once():
        outcome = left.pop(0)
        if outcome is not None:
            raise outcome

    follow(once, FOLLOWING, pause=pauses.append, rounds=len(outcomes))
    return pauses


def test_pauses_are_even_while_all_is_well():
    assert rounds(None, None) == [600, 600]


def test_outages_are_outlived_with_growing_delay(caplog):
    with caplog.at_level(logging.ERROR):
        pauses = rounds(SacctError("no slurmdbd"), StoreError("gone"), SacctError("x"), None)
    assert pauses == [30, 60, 100, 600]
    assert "no slurmdbd; next attempt in 30 s" in caplog.text


def test_the_delay_starts_anew_after_a_success():
    assert rounds(SacctError("a"), SacctError("b"), None, SacctError("c")) == [30, 60, 600, 30]


def test_mistakes_are_not_outlived():
    with pytest.raises(ConfigError):
        rounds(ConfigError("wrong"))
