"""Delimiters inside names: put together again where only one way is left."""

from hypothesis import given
from hypothesis import strategies as st

from sacct_ingest.sources.run_source import Tally
from sacct_ingest.sources.sacct_text import read_text, rejoiner

HEADER = [
    "JobID",
    "JobName",
    "User",
    "UID",
    "State",
    "Submit",
    "SubmitLine",
    "WorkDir",
    "ElapsedRaw",
    "Comment",
]
ROW = [
    "7",
    "solve",
    "ann",
    "1001",
    "COMPLETED",
    "1700000050",
    "sbatch solve.sh",
    "/home/ann",
    "5",
    "",
]
rejoin = rejoiner(HEADER, "|")


def test_typed_neighbours_tell_where_it_belongs():
    row = [*ROW]
    row[1], row[6] = "a|b|c", "sbatch -J a|b|c solve.sh"
    assert rejoin("|".join(row).split("|")) == row


def test_nothing_is_guessed():
    both = rejoiner(["JobID", "Comment", "AdminComment", "State"], "|")
    assert both(["7", "a", "b", "c", "FAILED"]) is None
    assert both(["7", "a", "b", "c", "d"]) is None


def test_rows_of_the_right_width_and_short_ones_are_not_its_business():
    assert rejoin(ROW) is None
    assert rejoin(ROW[:-1]) is None


def test_too_many_are_a_lost_line_end():
    assert rejoin(["7", *["x"] * 500, *ROW[2:]]) is None


@given(st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=12))
def test_any_name_comes_back_or_is_refused(name):
    row = [*ROW]
    row[1] = name
    result = rejoin("|".join(row).split("|"))
    assert result in (None, row)
    if "|" in name and not any(part in ("", "ann") for part in name.split("|")):
        assert result == row


def read(*rows):
    tally = Tally()
    text = "JobID|Cluster|JobName|User|UID|State|Submit|ElapsedRaw\n" + "".join(rows)
    runs = read_text(text.splitlines(keepends=True), tally)
    return [run.name for run in runs], tally


def row(job, name):
    return f"{job}|c|{name}|ann|1001|COMPLETED|1700000050|5\n"


def test_rows_around_it_survive():
    names, tally = read(row(1, "a"), row(2, "b|c|d"), row(3, "e"), row(4, "f\ng|h\ni"), row(5, "j"))
    assert names == ["a", "b|c|d", "e", "f\ng|h\ni", "j"]
    assert tally.refused == 0


def test_what_nobody_can_tell_is_refused_with_its_text():
    odd = "2|c|x|ann|1001|COMPLETED|1700000050|5|6\n"
    names, tally = read(row(1, "a"), odd, row(3, "e"))
    assert names == ["a", "e"]
    assert [reject.text for reject in tally.rejects] == [odd]
    assert "9 fields instead of 8" in tally.rejects[0].reason


def test_the_last_record_too():
    names, tally = read(row(1, "a"), "2|c|x\ny|ann|1001|COMPLETED|1700000050|5|6\n")
    assert names == ["a"]
    assert tally.refused == 1


def test_binary_rubbish_takes_no_time_and_no_memory():
    names, tally = read(*["rubbish\n"] * 30_000, row(3, "e"))
    assert names == ["e"]
    assert tally.refused > 1
