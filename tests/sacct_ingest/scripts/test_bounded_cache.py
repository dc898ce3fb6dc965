"""Of long texts only the last one is remembered."""

from sacct_ingest.scripts.job_script import bounded_cache


def test_short_texts_are_worked_out_once_and_of_long_ones_the_last():
    calls = []

    @bounded_cache(entries=2, characters=4)
    def length(*texts: str) -> int:
        calls.append(texts)
        return sum(map(len, texts))

    assert [length("ab", "cd"), length("ab", "cd")] == [4, 4]
    assert [length("ab", "cde"), length("ab", "cde"), length("abcdef"), length("abcde")] == [
        5,
        5,
        6,
        5,
    ]
    assert length("ab", "cde") == 5
    assert calls == [("ab", "cd"), ("ab", "cde"), ("abcdef",), ("abcde",), ("ab", "cde")]
