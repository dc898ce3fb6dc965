"""An ingest: complete, repeatable, and resumable wherever it was stopped."""

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random

import pytest
from msgspec.structs import replace

from sacct_ingest.errors import FormatError, SacctError
from sacct_ingest.ingest.into_store import IngestSettings, ingest
from sacct_ingest.ingest.windows import PaceSettings, SpanSettings
from sacct_ingest.job_run import JobRun
from sacct_ingest.records import JobState, KeyLevel
from sacct_ingest.sources.saved import SavedSacct
from sacct_ingest.store import Store
from slurm_plugin.demo.history import applications, make_runs
from slurm_plugin.demo.sandbox import sacct_text
from tests.sacct_ingest.records import SUBMIT_S, decision, run, runs_with

DATA = Path(__file__).parents[2] / "data"
DAY_S = 86_400
SETTINGS = IngestSettings(
    PaceSettings(window_s=100), SpanSettings(overlap_s=30, again_s=1000, every_s=500, first_s=1000)
)


@dataclass
class Accounting:
    """A source of windows that remembers what it was asked for and can break off."""

    runs: list[JobRun]
    breaks_at: int = 2**60
    asked: list[tuple[int, int]] = field(default_factory=list)
    name: str = "sacct:pine"
    windowed: bool = True

    def read(self, begin_s, end_s, tally):
        self.asked.append((begin_s, end_s))
        for each in self.runs:
            if begin_s <= (each.end_s or 0) <= end_s:
                tally.rows += 1
                yield each
        if begin_s <= self.breaks_at < end_s:
            raise SacctError("sacct broke off")


def windows(begin_s, end_s, width_s=100):
    return [(at, min(at + width_s, end_s)) for at in range(begin_s, end_s, width_s)]


def runs_ending_at(*times):
    return [run(job_id=time, end_s=time) for time in times]


def test_a_real_file_goes_in_twice_and_is_there_once(store):
    source = SavedSacct(DATA / "sacct-22.05-epoch.txt")
    first = ingest(store, source, now_s=SUBMIT_S)
    again = ingest(store, source, now_s=SUBMIT_S)
    assert (first.read, first.new, first.unfinished, first.refused) == (56, 24, 1, 0)
    assert (again.new, again.changed, again.same) == (0, 0, 24)
    curve = runs_with(store, KeyLevel.TAG, "root/solver/small")
    assert [row.nodes for row in curve] == [1, 2, 4]
    assert len({row.line for row in curve}) == 1
    # What Slurm 22.05 shows of a requeue and of two components.
    (requeued,) = store.runs.of_job(55)
    assert [one.state.value for one in requeued.starts] == ["REQUEUED", "COMPLETED"]
    (coupled,) = store.runs.of_job(52)
    assert (coupled.job_id, coupled.nodes, len(coupled.components)) == (51, 2, 2)


@pytest.mark.parametrize("ending", [".gz", ".bz2", ".xz"])
def test_files_may_be_compressed(sqlite_store, tmp_path, ending):
    module = __import__({".gz": "gzip", ".bz2": "bz2", ".xz": "lzma"}[ending])
    path = tmp_path / f"sacct.txt{ending}"
    with module.open(path, "wb") as file:
        file.write((DATA / "sacct-22.05-epoch.txt").read_bytes())
    assert ingest(sqlite_store, SavedSacct(path), now_s=SUBMIT_S).new == 24
    path.write_bytes(path.read_bytes()[:-50])
    with pytest.raises(FormatError, match=r"sacct\.txt"):
        ingest(sqlite_store, SavedSacct(path), now_s=SUBMIT_S)


def test_a_file_that_is_not_there(sqlite_store, tmp_path):
    with pytest.raises(FormatError, match=r"none\.txt: No such file"):
        ingest(sqlite_store, SavedSacct(tmp_path / "none.txt"), now_s=SUBMIT_S)


def test_rejected_rows_are_retained(sqlite_store, tmp_path):
    path = tmp_path / "sacct.txt"
    rows = b"1|c|FAILED|x|\xff\xfe\n2|c|FAILED|1700000005|b\n"
    path.write_bytes(b"JobID|Cluster|State|Submit|JobName\n" + rows)
    for _ in range(2):
        summary = ingest(sqlite_store, SavedSacct(path), now_s=SUBMIT_S)
        assert summary.refused == 1
    (reject,) = sqlite_store.rejects.all()
    assert reject.text == "1|c|FAILED|x|\ufffd\ufffd"
    assert reject.source == str(path)


def test_what_has_not_ended_waits_for_a_later_ingest(sqlite_store):
    running = run(state=JobState.RUNNING, end_s=None, elapsed_s=5)
    source = Accounting([replace(running, end_s=950)])
    summary = ingest(sqlite_store, source, now_s=1000, settings=SETTINGS)
    assert (summary.unfinished, summary.new) == (1, 0)
    source.runs = [run(end_s=1050)]
    assert ingest(sqlite_store, source, now_s=1100, settings=SETTINGS).new == 1


def test_the_first_ingest_goes_back_as_far_as_asked(sqlite_store):
    source = Accounting([])
    ingest(sqlite_store, source, now_s=5000, settings=SETTINGS)
    assert source.asked == windows(4000, 5000)


def test_the_next_one_goes_on_with_some_overlap(sqlite_store):
    source = Accounting([])
    ingest(sqlite_store, source, now_s=5000, settings=SETTINGS)
    source.asked.clear()
    summary = ingest(sqlite_store, source, now_s=5010, settings=SETTINGS)
    assert source.asked == [(4970, 5010)]
    assert (summary.begin_s, summary.end_s, summary.windows) == (4970, 5010, 1)


def test_only_whole_windows_move_the_watermark(sqlite_store):
    source = Accounting(runs_ending_at(4050, 4150, 4250, 4350), breaks_at=4260)
    with pytest.raises(SacctError):
        ingest(sqlite_store, source, now_s=5000, settings=SETTINGS)
    assert sqlite_store.watermarks.get(source.name) == 4200
    source.breaks_at, source.asked = 2**60, []
    ingest(sqlite_store, source, now_s=5000, settings=SETTINGS)
    assert source.asked[0] == (4170, 4270)
    assert {row.job_id for row in runs_with(sqlite_store, KeyLevel.USER, "ada")} == {
        4050,
        4150,
        4250,
        4350,
    }


def test_a_span_asked_for_leaves_the_watermark(sqlite_store):
    source = Accounting(runs_ending_at(150))
    sqlite_store.watermarks.set(source.name, 4900)
    summary = ingest(sqlite_store, source, now_s=5000, since_s=100, until_s=300, settings=SETTINGS)
    assert source.asked == [(100, 200), (200, 300)]
    assert summary.new == 1
    assert sqlite_store.watermarks.get(source.name) == 4900


def test_a_first_load_that_was_stopped_goes_on_where_it_was(sqlite_store):
    source = Accounting(runs_ending_at(*range(1010, 5000, 50)), breaks_at=3150)
    load = partial(ingest, sqlite_store, source, since_s=1000, settings=SETTINGS)
    with pytest.raises(SacctError):
        load(now_s=5000)
    assert sqlite_store.watermarks.get(source.name) == 3100
    source.breaks_at, source.asked = 2**60, []
    load(now_s=5020)
    assert source.asked == windows(3070, 5020)
    assert sqlite_store.runs.count() == len(source.runs)
    assert sqlite_store.watermarks.get(source.name) == 5020
    # Finished: asked for again it is read again.
    source.asked = []
    load(now_s=5020)
    assert source.asked[0] == (1000, 1100)


def test_what_is_new_goes_on_from_a_first_load_that_was_stopped(sqlite_store):
    source = Accounting([], breaks_at=1550)
    with pytest.raises(SacctError):
        ingest(sqlite_store, source, now_s=5000, since_s=1000, settings=SETTINGS)
    source.breaks_at, source.asked = 2**60, []
    ingest(sqlite_store, source, now_s=5000, settings=SETTINGS)
    assert source.asked == windows(1470, 5000)  # and nothing again: it was all new


def test_a_span_with_a_gap_before_it_does_not_move_the_watermark(sqlite_store):
    source = Accounting([])
    sqlite_store.watermarks.set(source.name, 2000)
    ingest(sqlite_store, source, now_s=5000, since_s=3000, settings=SETTINGS)
    assert sqlite_store.watermarks.get(source.name) == 2000


def test_the_watermark_is_never_in_the_future(sqlite_store):
    source = Accounting([])
    ingest(sqlite_store, source, now_s=5000, until_s=9000, settings=SETTINGS)
    assert source.asked[-1] == (4900, 5000)
    assert sqlite_store.watermarks.get(source.name) == 5000


def test_what_came_very_late_is_detected_when_the_last_days_are_read_again(sqlite_store):
    source = Accounting(runs_ending_at(4100, 4800))
    ingest(sqlite_store, source, now_s=5000, settings=SETTINGS)
    source.runs += runs_ending_at(4600)
    source.runs[1] = replace(source.runs[1], state=JobState.FAILED)
    lately = ingest(sqlite_store, source, now_s=5499, settings=SETTINGS)
    assert (lately.new, lately.changed) == (0, 0)
    source.asked.clear()
    result = ingest(sqlite_store, source, now_s=5510, settings=SETTINGS)
    assert source.asked == [(5469, 5510), *windows(4510, 5469)]
    assert (result.new, result.changed) == (1, 1)


def test_reading_again_goes_on_where_it_was_stopped(sqlite_store):
    source = Accounting([])
    ingest(sqlite_store, source, now_s=5000, settings=SETTINGS)
    source.breaks_at = 4950
    with pytest.raises(SacctError):
        ingest(sqlite_store, source, now_s=5600, settings=SETTINGS)
    source.breaks_at, source.asked = 2**60, []
    ingest(sqlite_store, source, now_s=5600, settings=SETTINGS)
    assert source.asked == [(5570, 5600), *windows(4900, 5570)]
    source.asked = []
    ingest(sqlite_store, source, now_s=5700, settings=SETTINGS)
    assert source.asked == windows(5570, 5700)


def test_a_clock_that_went_back_has_the_last_days_read_again(sqlite_store):
    source = Accounting([])
    ingest(sqlite_store, source, now_s=8000, settings=SETTINGS)
    source.asked.clear()
    source.breaks_at = 4350
    with pytest.raises(SacctError):
        ingest(sqlite_store, source, now_s=5000, settings=SETTINGS)
    # It is not known what was missed meanwhile.
    assert source.asked[0] == (3970, 4070)
    assert sqlite_store.watermarks.get(source.name) == 4270
    source.breaks_at = 2**60
    ingest(sqlite_store, source, now_s=5000, settings=SETTINGS)
    assert sqlite_store.watermarks.get(source.name) == 5000


def test_rows_of_a_window_that_broke_off_are_not_retained_as_refused(sqlite_store):
    class Broken(Accounting):
        def read(self, begin_s, end_s, tally):
            tally.refuse("odd", f"row of {begin_s}", 1)
            yield from super().read(begin_s, end_s, tally)

    with pytest.raises(SacctError):
        ingest(sqlite_store, Broken([], breaks_at=4150), now_s=5000, settings=SETTINGS)
    assert [row.text for row in sqlite_store.rejects.all()] == ["row of 4000"]


def test_progress_adds_up_to_the_rows_read(sqlite_store):
    reported = []
    source = Accounting(runs_ending_at(*range(4000, 5000, 7)))
    summary = ingest(
        sqlite_store,
        source,
        now_s=5000,
        settings=SETTINGS,
        progress=lambda rows, *_: reported.append(rows),
    )
    assert sum(reported) == summary.read > 0


def test_decisions_find_their_runs(sqlite_store):
    sqlite_store.decisions.add([decision()])
    source = Accounting([run(end_s=4500)])
    assert ingest(sqlite_store, source, now_s=5000, settings=SETTINGS).joined == 1


def test_all_databases_end_up_with_the_same(store, tmp_path):
    runs = make_runs(applications("ada"), end_s=SUBMIT_S, rng=Random(3), days=20)
    path = tmp_path / "sacct.txt"
    path.write_text("".join(sacct_text(runs)))
    with Store.open(str(tmp_path / "other.db")) as other:
        for each in (store, other):
            summary = ingest(each, SavedSacct(path), now_s=SUBMIT_S)
            assert (summary.new, summary.refused) == (len(runs), 0)
        for level in KeyLevel:
            assert list(store.runs.by_key(level)) == list(other.runs.by_key(level))
