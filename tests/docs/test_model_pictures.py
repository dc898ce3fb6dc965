"""The pictures of the pages on the model: made of runs of a formula, by the product's own fits.

``pytest tests/docs/test_model_pictures.py --record`` makes them anew.
"""

import math
import random
import re
from dataclasses import replace
from pathlib import Path

import pytest

from predictor.application.surface import for_sizes
from predictor.table import at
from predictor.tables.build import IdentityRuns
from predictor.tables.parts import tables_of
from predictor.tables.settings import TableSettings
from sacct_ingest.records import KeyLevel
from sacct_ingest.text.durations import duration_text
from slurm_plugin.reports.chart_file import FILE_WIDTH, save, sheet
from slurm_plugin.reports.chart_marks import Chart, ChartLabel, ChartPath, Dot, KeyEntry, level_line
from slurm_plugin.reports.curve_chart import LogFrame
from tests.predictor.rows import row, submitted

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"
#: By how much numbers may differ between processors, in dots of a picture.
NEAR = 2.0
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
COUNTS, MOST = (1, 2, 4, 8), 16
RAN, DRAWN = (500, 1000, 2000, 4000), (500, 4000, 32_000)
#: Runs of one job, those before the first prediction, and the run from which on all are slower.
RUNS, LEARNT, MOVED, SLOWER = 40, 3, 22, 1.4
#: The plot's area, and the largest time of its axis.
LEFT, BASE, MOST_S = 58, 180, 2400
HEIGHT = 240
KEY = [
    KeyEntry([Dot("run", 13, -4, 2.5)], "runs"),
    KeyEntry([ChartPath("first", "M0 -4H26")], "predicted"),
    KeyEntry([ChartPath("band", "M0 -11H26V3H0Z")], "interval: nine of ten runs"),
]


def test_the_picture_of_the_model_shows_what_it_says_today(request, tmp_path):
    _compare(_model(), "model.svg", request, tmp_path, "models.md")


def test_the_picture_of_trust_shows_what_is_predicted_today(request, tmp_path):
    _compare(_trust(), "trust.svg", request, tmp_path, "trust.md")


def _compare(chart, name, request, folder, page):
    save(chart, folder / name)
    if request.config.getoption("--record"):
        save(chart, FOLDER / name)
    today, stored = (folder / name).read_text(), (FOLDER / name).read_text()
    assert _NUMBER.sub("0", today) == _NUMBER.sub("0", stored), "--record makes it anew"
    pairs = zip(_NUMBER.findall(today), _NUMBER.findall(stored), strict=True)
    assert all(float(a) == pytest.approx(float(b), abs=NEAR, rel=0.1) for a, b in pairs)
    assert f"](pictures/{name})" in (FOLDER.parent / page).read_text()


def _run(number, nodes, elapsed_s, line):
    end_s = 1_000_000 + 10_000 * number
    ran = replace(
        row(nodes, round(elapsed_s)),
        run_id=number + 1,
        submit_s=end_s - round(elapsed_s) - 10,
        start_s=end_s - round(elapsed_s),
        end_s=end_s,
    )
    return submitted(ran, f"sbatch -N {nodes} {line}", line=line)


def _table(runs, level):
    return tables_of(IdentityRuns(level, "ann/solve", runs, 9e9), TableSettings())[0].table


def _model():
    """Draw run time by steps and nodes: two sizes that ran, and one that did not."""
    rng, runs = random.Random(4), []
    for number in range(16):
        steps, nodes = RAN[number // 4], COUNTS[number % 4]
        elapsed_s = (60 + 0.9 * steps / nodes) * math.exp(rng.gauss(0, 0.05))
        runs.append(_run(number, nodes, elapsed_s, f"md.sh --steps {steps}"))
    table = _table(runs, KeyLevel.NAME)
    counts = [n for n in table.nodes if n <= MOST]
    frame = LogFrame(1, MOST, 60.0, 60_000.0, "nodes", FILE_WIDTH, HEIGHT)
    marks, said = list(frame.axes("run time")), []
    for steps in DRAWN:
        of_size = for_sizes(table, {"--steps": float(steps)})
        rows = [at(of_size, n) for n in counts]
        low, high = ([getattr(one, end) for one in rows] for end in ("low_s", "high_s"))
        look = "first" if steps in RAN else "first dashed"
        times = [one.time_s for one in rows]
        marks += frame.interval(counts, low, high)
        marks.append(ChartPath(look, frame.line(counts, times)))
        label = f"{steps:,} steps"
        marks.append(ChartLabel("", frame.x(1.1), frame.y(high[0]) - 6, label))
        said.append(f"{label} on one node {duration_text(times[0])}")
    dots = [
        Dot("run", frame.x(one.nodes), frame.y(one.elapsed_s), 2.5)
        for one in runs
        if one.line.split()[-1] in map(str, DRAWN)
    ]
    key = [*KEY, KeyEntry([ChartPath("first dashed", "M0 -4H26")], "of a size that never ran")]
    title = "One program, sixteen runs: sizes and nodes learnt together"
    chart = Chart(
        title, f"Predicted: {'; '.join(said)}.", marks + dots, HEIGHT, "", FILE_WIDTH, key=key
    )
    return sheet([chart], title)


def _trust():
    """Draw what each run took beside what was predicted of it before."""
    rng, runs, rows = random.Random(8), [], {}
    for number in range(RUNS):
        if number >= LEARNT:
            rows[number] = at(_table(runs, KeyLevel.LINE), 4)
        moved = SLOWER if number >= MOVED else 1.0
        elapsed_s = 1200 * moved * math.exp(rng.gauss(0, 0.04))
        runs.append(_run(number, 4, elapsed_s, "solve.sh --input box.dat"))

    def x(number):
        return round(LEFT + (FILE_WIDTH - LEFT) * (number + 0.5) / RUNS, 1)

    def y(time_s):
        return round(BASE - (BASE - 24) * time_s / MOST_S, 1)

    def line(end):
        points = (f"{x(number)} {y(getattr(row, end))}" for number, row in rows.items())
        return "L".join(points)

    high = "L".join(reversed(line("high_s").split("L")))
    marks = [ChartLabel("faint", 0, 12, "run time")]
    for time_s in range(0, MOST_S + 1, 600):
        marks += level_line(y(time_s), LEFT, FILE_WIDTH, duration_text(time_s))
    marks.append(ChartPath("band", f"M{line('low_s')}L{high}Z"))
    marks.append(ChartPath("first", f"M{line('time_s')}"))
    marks += [Dot("run", x(number), y(run.elapsed_s), 2.5) for number, run in enumerate(runs)]
    marks += [ChartLabel("faint middle", x(n - 1), BASE + 20, str(n)) for n in range(1, RUNS, 5)]
    marks.append(ChartLabel("faint middle", FILE_WIDTH / 2, BASE + 36, "run"))
    title = "Forty runs of one job, and what was predicted before each"
    inside = sum(row.low_s <= runs[number].elapsed_s <= row.high_s for number, row in rows.items())
    described = f"{inside} of {len(rows)} runs were inside their interval."
    chart = Chart(title, described, marks, BASE + 44, "", FILE_WIDTH, key=KEY)
    return sheet([chart], title)
