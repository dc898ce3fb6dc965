"""Nodes beyond the knee, worked out by hand."""

from predictor.types import PredictionTable, Verdict
from slurm_plugin.evaluation.diagnoses import JobUsage
from tests.slurm_plugin.reports.rows import decision, run

NODES = (1, 2, 4, 8)
TIMES = (800.0, 420.0, 240.0, 200.0)


def table(verdict: Verdict = Verdict.RELIABLE, knee: int | None = 4) -> PredictionTable:
    return PredictionTable(
        level="line", key="ab12", label="wrf", model="m", verdict=verdict, problems=(),
        nodes=NODES, median_s=TIMES, low_s=TIMES, high_s=TIMES, curve_sd=(0.0,) * 4,
        confidence=0.9, observed=(), knee=knee, max_useful=8, runs=9, mem_node_bytes=None,
        fitted_s=0.0,
    )  # fmt: skip


def used(runs: int, **given: object) -> JobUsage:
    usage = JobUsage()
    fields = {"requested_nodes": 8, "nodes": 8, "applied": False, **given}
    for _ in range(runs):
        usage.add("wrf", decision(**fields), run(nodes=8, elapsed_s=250.0))
    return usage


def wasted(usage: JobUsage, made: PredictionTable, least: float = 0.0) -> list[float]:
    found = usage.waste({("line", "ab12"): made}, least_node_hours=least)
    return [round(3600 * one.wasted_node_hours) for one in found]


def test_what_is_beyond_the_knee() -> None:
    (found,) = used(4).waste({("line", "ab12"): table()}, least_node_hours=0.0)
    # 8 x 250 s each; at the knee 4 x 250 x 240/200 = 1200 s.
    assert (found.user, found.runs, found.nodes, found.knee) == ("ada", 4, (8, 8), 4)
    assert round(3600 * found.node_hours) == 8000
    assert round(3600 * found.wasted_node_hours) == 3200
    assert (round(found.efficiency, 2), round(found.slower, 2)) == (0.6, 1.2)


def test_nobody_is_nagged_about_trifles() -> None:
    assert wasted(used(4), table(), least=3201 / 3600) == []
    assert wasted(used(4), table(), least=3199 / 3600) == [3200]
    assert wasted(used(2), table()) == []


def test_who_had_a_reason_is_not_named() -> None:
    assert wasted(used(4, deadline_s=1.0), table()) == []
    assert wasted(used(4, applied=True, requested_nodes=2), table()) == []


def test_only_reliable_curves_tell() -> None:
    assert wasted(used(4), table(Verdict.DOUBTFUL)) == []
    assert wasted(used(4), table(knee=None)) == []
    assert wasted(used(4), table(knee=8)) == []
