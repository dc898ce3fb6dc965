"""The answer of an advice: one line, what to paste, and the sentences that matter most.

Imports nothing heavy.
"""

from collections.abc import Iterator

from sacct_ingest.text.durations import duration_range, duration_text
from slurm_plugin.protocol.advice_messages import SURE, Advice, Row
from slurm_plugin.text import formatting as fmt

#: Sentences below the lines to paste; ``-v`` shows all.
_MOST_SENTENCES = 2
#: Verdicts on a run time, but for the best.
_DOUBTS = {"doubtful": "doubtful", "refused": "unreliable"}
#: Sentences that say no more.
_VERDICTS = frozenset({
    "The prediction is doubtful.", "The prediction is not reliable enough."
})  # fmt: skip
#: Verdict and reason of jobs of one CPU, which say the same.
_ONE_CPU = (
    "All runs used one CPU: no run shows what more would do.",
    "All its runs used one CPU, so one node is enough.",
)
#: Reasons that a problem of the prediction says with more words.
_SAID_BY_PROBLEMS = frozenset({
    "None of its runs had this layout of tasks, CPUs or GPUs.",
    "Another release of NIMO made its prediction; 'nimo fit' makes it anew.",
})  # fmt: skip
#: A certain chance: nothing is sure.
_SURE = 0.99


def answer(advice: Advice, *, every_sentence: bool = False, width: int | None = None) -> str:
    """Give the headline, the lines to paste, and what matters most about them.

    every_sentence: all of them, not only the first.
    width: columns that the headline has to fit into, so that lines to paste are right below it;
        None: any.
    """
    lines = lines_to_paste(advice)
    headline = _headline(advice, ends=" Ask for:" if lines else "", width=width)
    matters = [one for one in _that_matter(advice) if one]
    others = list(dict.fromkeys(one for one in _others(advice) if one))
    if every_sentence and advice.rows and advice.verdict_text not in [*matters, *others]:
        others.append(advice.verdict_text)
    if advice.guess and advice.rows and not every_sentence:
        others = []  # a guess is one sentence
    # A doubtful prediction always has its reason in the answer, as a third sentence if need be.
    least = 1 if advice.rows and advice.verdict in _DOUBTS else 0
    room = len(others) if every_sentence else max(_MOST_SENTENCES - len(matters), least)
    later = "\n".join(filter(None, (advice.begin_text, advice.begin_directive)))
    asked = f"For a job that asks for {advice.usual.options}." if advice.usual else ""
    said = "\n".join(filter(None, [asked, *matters, *others[:room]]))
    return "\n\n".join(filter(None, ("\n".join([headline, *lines]), said, later)))


def answered(advice: Advice) -> Row | None:
    """Row that the answer is about: what is recommended, else asked for, else nearest to that."""
    rows = {row.nodes: row for row in advice.rows}
    recommended = next((row for row in advice.rows if row.recommended), None)
    return recommended or rows.get(advice.asked or 0) or rows.get(advice.nearest or 0)


def lines_to_paste(advice: Advice) -> list[str]:
    """Lines for the script, or options for the command line, that the answer comes to."""
    directives = (advice.directive, advice.memory_directive, advice.time_directive)
    return [line for text in directives for line in text.split("\n") if line]


def chance_text(chance: float | None) -> str:
    """Write a chance: nothing is sure.

    >>> chance_text(0.9999), chance_text(0.001), chance_text(0.42)
    ('>99 %', '<1 %', '42 %')
    """
    if chance is None:
        return "-"
    return ">99 %" if chance > _SURE else "<1 %" if chance < 1 - _SURE else fmt.percent(chance)


def _headline(advice: Advice, *, ends: str, width: int | None) -> str:
    """Give the answer in one line; what the table has, too, is left out where it is too long."""
    row = answered(advice)
    if row is None and advice.guess:
        row = next(iter(advice.rows), None)
    if row is None:
        return f"{advice.verdict_text}{ends}"
    size = advice.unit.counted(row.nodes)
    where = f" in partition {fmt.printable(advice.partition)}" if advice.partition else ""
    if advice.guess:
        return f"{_time(advice, row, f'{size}{where}')}; {_guessed(advice)}{ends}"
    doubt = f", {_DOUBTS[advice.verdict]}" if advice.verdict in _DOUBTS else ""
    doubt = ", until its limit" if advice.until_limit else doubt
    if advice.uncovered is not None:
        starts = f"; {advice.unit.counted(advice.uncovered)}: unknown"
    else:
        starts = _starts(row)
    long = f"{_time(advice, row, f'{size}{where}{doubt}')}{starts}.{ends}"
    if advice.uncovered is not None:
        short = f"{_run_time(row)} on {size}{doubt}{starts}."
    else:
        short = f"{_time(advice, row, f'{size}{doubt}')}."
    texts = [long, long.removesuffix(ends), f"{short}{ends}", short]
    return next((one for one in texts if width is None or len(one) <= width), short)


def _time(advice: Advice, row: Row, where: str) -> str:
    """Say how long it runs, and how sure that is."""
    if row.unbounded or row.high_s is None:
        return f"{_run_time(row)} on {where}"
    runs = f"{_share(advice.confidence)} runs: {duration_range(row.low_s, row.high_s)}"
    return f"{_run_time(row)} on {where} ({runs})"


def _run_time(row: Row) -> str:
    """Write the run time of a count, or what it is beyond."""
    if row.unbounded or row.high_s is None:
        return f"Over {duration_text(row.low_s)}"
    return f"About {duration_text(row.time_s)}"


def _guessed(advice: Advice) -> str:
    """Say whose jobs a guess is made of."""
    return f"{advice.verdict_text[:1].lower()}{advice.verdict_text[1:]}"


def _share(confidence: float) -> str:
    """Share of runs in words.

    >>> _share(0.9), _share(0.95)
    ('9 of 10', '95 % of')
    """
    tenths = round(10 * confidence, 6)
    return f"{tenths:.0f} of 10" if tenths.is_integer() else f"{fmt.percent(confidence)} of"


def _starts(row: Row) -> str:
    return "" if row.wait_s is None else f"; {fmt.starts_text(row.wait_s, bound=row.wait_bound)}"


def _that_matter(advice: Advice) -> Iterator[str]:
    """Give what keeps the job from its result, or from being what is answered; the worst first."""
    yield advice.failure_text
    yield advice.comment_text
    yield advice.job_text
    yield fmt.printable(advice.script_text)
    yield advice.submit_text
    yield advice.awaited_text
    yield _deadline(advice)
    yield advice.limit_text
    yield advice.size_text
    yield advice.time_text


def _others(advice: Advice) -> Iterator[str]:
    """Give what there is to say besides: how sure it is, what is gained, how to make it surer."""
    sure = advice.verdict == "reliable"
    if not sure:
        verdict = advice.verdict_text if advice.rows else ""
        yield _doubt(advice) or _beside_headline(verdict) or _reason(advice)
    if not advice.directive:
        yield _reason(advice)
    yield _change(advice)
    if advice.directive and not advice.deadline_text:
        yield _reason(advice)
    if sure:
        yield _doubt(advice)
    yield from _problems(advice)[1:]
    yield f"{advice.energy_text}." if advice.energy_text else ""


def _beside_headline(text: str) -> str:
    """Give a sentence, but for the verdict alone, which the headline has."""
    return "" if text in _VERDICTS else text


def _reason(advice: Advice) -> str:
    """Give the reason, but for what the headline or the verdict has."""
    said_twice = (advice.verdict_text, advice.reason) == _ONE_CPU and advice.verdict != "reliable"
    said_twice = said_twice or (advice.reason in _SAID_BY_PROBLEMS and bool(advice.problems))
    return "" if said_twice else _beside_headline(advice.reason)


def _doubt(advice: Advice) -> str:
    """Say why the prediction is no better, and what would make it so."""
    problems = _problems(advice)
    if not problems or not advice.observe:
        return "".join(problems[:1])
    size = advice.unit.counted(advice.observe)
    why = problems[0].removesuffix(".")
    return f"{why}: one run on {size} would make the prediction surer."


def _problems(advice: Advice) -> list[str]:
    """Give the problems of the runs; those of the job itself are said before."""
    return [one for one in advice.problems if one not in advice.job_text]


def _deadline(advice: Advice) -> str:
    if advice.deadline_s is None:
        return ""
    if advice.deadline_text:
        return "\n".join(filter(None, (advice.deadline_text, _cheapest(advice))))
    when = fmt.short_clock(advice.deadline_s)
    if advice.meets_deadline:
        return " ".join(filter(None, (f"The deadline {when} can be made.", _cheapest(advice))))
    return f"NIMO cannot tell whether the deadline {when} can be made."


def _cheapest(advice: Advice) -> str:
    """Name the row that makes the deadline for the fewest node-, CPU- or GPU-hours."""
    if advice.cheapest_sure is None:
        return ""
    row = next(row for row in advice.rows if row.nodes == advice.cheapest_sure)
    return (
        f"{advice.unit.counted(row.nodes)} {'makes' if row.nodes == 1 else 'make'} it "
        f"with a chance of {chance_text(row.chance)} for the fewest {advice.unit.word}-hours."
    )


def _change(advice: Advice) -> str:
    """Say what the recommended count gives and takes beside the one asked for."""
    rows = {row.nodes: row for row in advice.rows}
    row, asked = rows.get(advice.nodes or 0), rows.get(advice.asked or 0)
    if row is None or asked is None or row is asked or row.no_later is None:
        return ""
    later_s = row.time_s + (row.wait_s or 0.0) - asked.time_s - (asked.wait_s or 0.0)
    more, word = row.node_hours - asked.node_hours, advice.unit.word
    sure = f"{chance_text(row.no_later)} certain that it ends no later"
    if later_s > 0:
        most = duration_text(row.later_s or later_s)
        sure = f"{fmt.percent(SURE)} certain: at most {most} later"
    return (
        f"It ends {duration_text(abs(later_s))} {'later' if later_s > 0 else 'sooner'} than on "
        f"{asked.nodes}, for {fmt.hours(abs(more))} {word}-hours {'more' if more > 0 else 'less'} "
        f"({sure})."
    )
