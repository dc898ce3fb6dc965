"""A call that works of each public function of the numbers, for `test_public`."""

from collections.abc import Callable
from dataclasses import replace as replace_data
from functools import partial
from typing import Any

import numpy as np
from msgspec.structs import replace

from predictor import Verdict
from predictor.application.model import Application
from predictor.application.request import for_request
from predictor.forecasts.adrm import RawBandwidth, Throughput
from predictor.level.backtest import ExpertPanel, NextRun, replay
from predictor.level.calibration import BacktestSettings, Calibrator
from predictor.level.experts import RunRequest
from predictor.level.record import FEW, PooledErrors, Record, pooled_errors
from predictor.models.adept.anomalies import AnomalySettings
from predictor.models.adept.envelope import Bounds
from predictor.models.adept.search import SearchSettings
from predictor.models.averaged.model import residuals
from predictor.models.averaged.shapes import ShapePrior, draw
from predictor.models.downey import VarianceMode
from predictor.models.two_sizes import TwoSizes
from predictor.node_types.product_form import ProductForm, Sums
from predictor.node_types.ratios import believe
from predictor.occupancy.active.refinement import binary_search
from predictor.occupancy.active.space import Space
from predictor.occupancy.application_model import OccupancyModel
from predictor.occupancy.fit import supported
from predictor.occupancy.regression import LinearOccupancyModel
from predictor.occupancy.samples import history_samples
from predictor.product_limit import ProductLimit
from predictor.refit import fits_of
from predictor.sample import Sample
from predictor.tables.memory_need import enough_for, memory_need
from predictor.tables.of_curve import to_prediction
from predictor.tables.settings import TableSettings
from predictor.waits.backtest import past_waits, walk
from predictor.waits.easy import Engine, JobShape
from predictor.waits.error_record import WaitRecord, class_of
from predictor.waits.estimate import WaitEstimate
from tests.predictor.call_values import (
    ADEPT,
    AMOUNTS,
    BEYOND,
    CHANGE,
    CHOICE,
    CURVE,
    DEMAND,
    ENTRY,
    ENVELOPE,
    EVIDENCE,
    FIT,
    FUNCTION,
    JUDGED,
    LINE,
    MEASURED,
    NODES,
    NOTHING,
    OBSERVED,
    PAST_JOB,
    PROFILE,
    ROWS,
    SAMPLES,
    SPACE,
    SUMS,
    TABLE,
    TIMES,
    UNCERTAINTY,
    WAITING,
    WAITS_LEARNED,
    N,
    T,
    asked,
    forecasts,
    pairs_of,
    probed,
    run_on,
    scheduled,
    transferred,
    used,
)
from tests.predictor.example_curves import sized
from tests.predictor.rows import row as stored

#: A call that works for each function or class; None: the function itself.
CALLS: dict[str, tuple[Callable[..., Any] | None, dict[str, Any]]] = {
    "application.shapes.log_ratio": (None, {"doublings": np.array([-1.0, 0.0, 2.0])}),
    "application.model.Application": (
        lambda **given: Application([Sample(**given)] * 2).paths().logs,
        {"nodes": 4, "elapsed_s": 9.0, "asked": 8, "memory_bytes": 5.0},
    ),
    "application.count_changes.log_ratios": (None, {"change": CHANGE, "asked": 4, "counts": [2]}),
    "application.count_changes.ratios": (
        None, {"table": for_request(replace_data(TABLE, change=CHANGE), 4), "counts": (2,)},
    ),
    "application.request.for_request": (
        None, {"table": replace_data(TABLE, change=CHANGE), "asked": 4, "given": (1, 8)},
    ),
    "application.request.range_of": (None, {"change": CHANGE, "given": (1, 8)}),
    "types.Point": (None, {"nodes": 4, "time_s": 10.0, "repeats": 2, "spread": 0.1}),
    "sample.Sample": (None, {"nodes": 4, "elapsed_s": 10.0, "end_s": 5.0}),
    "types.Curve": (None, {"points": CURVE.points, "resolution_s": 1.0}),
    "models.selection.Choice": (
        partial(asked, CHOICE), {"nodes": NODES, "level": 0.9, "shares": [0.5, 0.9]},
    ),
    "tables.of_curve.to_prediction": (
        lambda log_s, low, high, nodes, level: to_prediction(
            replace_data(JUDGED, log_s=log_s, low=low, high=high), nodes, level
        ),
        {"log_s": 2.0, "low": 1.5, "high": 2.5, "nodes": 4, "level": 0.9},
    ),
    "occupancy.samples.history_samples": (
        lambda elapsed_s, nodes: history_samples(
            [replace_data(stored(4, 9.0), nodes=nodes, elapsed_s=elapsed_s)], {}
        ),
        {"elapsed_s": 9.0, "nodes": 4},
    ),
    "submission.for_inputs": (None, {"table": TABLE, "work_dir": "", "changed_s": 5.0}),
    "tables.memory_need.enough_for": (
        lambda need, asked: enough_for([(need, False)] * 3, asked),
        {"need": 1e9, "asked": 2e9},
    ),
    "tables.memory_need.memory_need": (
        lambda margin, nodes: memory_need([stored(nodes, 9.0)], margin=margin),
        {"margin": 1.2, "nodes": 4},
    ),
    "waits.history.arrival_demand": (
        None, {"submit_s": [1.0, 2.0, 2.5], "sizes": [4, 2, 1], "run_s": [9.0, 5.0, 2.0]},
    ),
    "waits.workload.ArrivalDemand": (
        lambda span_s, level, factor: DEMAND.scaled(factor).within(span_s, level),
        {"span_s": 90.0, "level": 0.5, "factor": 2.0},
    ),
    "waits.backtest.past_waits": (
        lambda asks: past_waits([stored(4, 9.0)] * 3, asks=asks), {"asks": 2},
    ),
    "waits.backtest.walk": (
        lambda step: [*walk([PAST_JOB] * 3, step=step)],
        {"step": 1},
    ),
    "waits.simulation.run_forward": (
        run_on,
        {"units": 4, "horizon_s": 900.0, "limit_s": 60.0, "ran_s": 5.0, "begin_s": 5.0},
    ),
    "models.averaged.model.residuals": (
        lambda **given: residuals(**given).precision,
        {
            "places": np.log(N), "variances": np.full((1, 5), 0.01), "tau": np.array([0.1]),
            "noise": np.array([0.1]), "reach": 2.0,
        },
    ),
    "forecasts.forecasters.forecast_series": (probed, {"value": 9.0, "at_s": 2.0}),
    "curves.from_runs.build": (None, {"runs": ROWS}),
    "product_limit.ProductLimit": (
        lambda values, share: ProductLimit.of((one, False) for one in values).quantile(share),
        {"values": [1.0, 2.0, 3.0], "share": 0.9},
    ),
    "models.selection.fit_curve": (None, {"curve": CURVE}),
    "tables.of_curve.grid": (None, {"observed": NODES, "settings": TableSettings()}),
    "tables.of_curve.knee_of": (None, {"nodes": NODES, "times": TIMES}),
    "tables.of_curve.max_useful_of": (None, {"nodes": NODES, "times": TIMES}),
    "tables.of_curve.surprise_factor": (
        None, {"surprises": [0.1, 0.2, 0.4] * 5, "share": 0.9, "least": 0.8},
    ),
    "curves.from_runs.follow": (None, {"runs": ROWS}),
    "forecasts.forecasters.Bank": (
        lambda values: [*forecasts(values)],
        {"values": [1.0, 2.0, 3.0]},
    ),
    "forecasts.forecasters.nine_of_ten": (None, {"errors": [0.1, -0.2]}),
    "curves.reliability.measure": (
        None,
        {"curve": CURVE, "errors": [0.01, 0.02, -0.01, 0.01, 0.02]},
    ),
    "curves.reliability.deviations": (None, {"curve": CURVE}),
    "curves.reliability.around": (
        None,
        {"nodes": [3], "medians": np.array([10.0]), "uncertainty": UNCERTAINTY, "level": 0.9},
    ),
    "curves.reliability.curve_deviation": (None, {"nodes": NODES, "uncertainty": UNCERTAINTY}),
    "models.averaged.shapes.spread_evenly": (None, {"count": 8, "dimensions": 2}),
    "models.averaged.shapes.log_time": (
        None, {"shapes": draw(ShapePrior(shapes=8)), "ratios": np.array([1.0, 2.0])},
    ),
    "level.experts.RunRequest": (None, {"nodes": 4, "limit_s": 60.0}),
    "level.experts.typical": (
        None, {"request": RunRequest(4, 60.0), "past": ROWS[:3]},
    ),
    "curves.reliability.belongs": (None, {"family": "powers of two", "nodes": 8}),
    "table.at": (None, {"table": TABLE, "nodes": 3}),
    "table.covers": (None, {"table": TABLE, "nodes": 3}),
    "table.longest": (None, {"table": TABLE, "nodes": 3}),
    "table.level_quantile": (None, {"table": TABLE, "nodes": 3, "share": 0.9}),
    "table.quantile": (None, {"table": TABLE, "nodes": 3, "share": 0.9}),
    "table.verdict_at": (None, {"table": TABLE, "nodes": 3}),
    "job_table.for_limit": (None, {"table": TABLE, "limit_s": 60.0}),
    "table.table_of": (
        None,
        {"predictions": FIT.predict([4]), "verdicts": (Verdict.RELIABLE,), "confidence": 0.9},
    ),
    "forecasts.transfer_time.transfer_time": (
        None, {"series": [], "size_bytes": 1e6, "source": "a", "target": "b", "now_s": 0.0},
    ),
    "node_types.ratios.believe": (
        None, {"evidence": EVIDENCE, "observed": {"new": OBSERVED}, "target": "new"},
    ),
    "node_types.ratios.ratio_at": (
        None,
        {
            "believed": believe(EVIDENCE, {}, "new"), "evidence": EVIDENCE, "target": "new",
            "own": OBSERVED, "nodes": NODES,
        },
    ),
    "waits.easy.Engine": (scheduled, {"nodes": 4, "submit_s": [0.0, 1.0, 2.0], "closed": 2}),
    "waits.easy.JobShape": (
        lambda **shape: Engine(4).run([0.0], lambda *_: JobShape(**shape)),
        {"nodes": 2, "limit_s": 9.0, "run_s": 5.0},
    ),
    "level.calibration.Calibrator": (
        lambda level: Calibrator(
            [ENTRY], PooledErrors(), BacktestSettings(), same=True, level=level
        ),
        {"level": 0.9},
    ),
    "level.calibration.BacktestSettings": (
        None, {"believed": 9.0, "fade": 0.9, "replayed": 4, "fits": 2, "scale": 0.3},
    ),
    "level.record.RecordEntry": (
        lambda **given: pooled_errors([replace(ENTRY, **given)] * FEW),
        {"end_s": 5.0, "size": 2.0, "errors": (0.1, None), "scale": 0.2, "fell": (0.5,),
         "width": 0.3, "chosen": 0},
    ),
    "level.backtest.ExpertPanel": (
        lambda nodes, limit_s: ExpertPanel(ROWS, same=True).ask(
            nodes, limit_s
        ),
        {"nodes": 4, "limit_s": 900.0},
    ),
    "level.backtest.NextRun": (
        lambda nodes, limit_s: NextRun(
            ExpertPanel(ROWS, same=True), Record((ENTRY,) * 9), PooledErrors(), BacktestSettings()
        ).judge(nodes, limit_s),
        {"nodes": 4, "limit_s": 900.0},
    ),
    "level.backtest.replay": (
        lambda runs, scale: replay(
            runs,
            Record((replace(ENTRY, scale=scale),)),
            PooledErrors(),
            BacktestSettings(),
            same=True,
        ),
        {"runs": ROWS, "scale": 0.2},
    ),
    "waits.regression.QueueWaitFit": (WAITS_LEARNED.predict, {"rows": [[9.0, 60.0]]}),
    "waits.regression.QueueWaitModel": (
        None, {"level": 0.9, "trees": 5, "leaves": 3, "learning_rate": 0.1, "leaf_jobs": 5,
               "blocks": 3, "allowance_s": 60.0},
    ),
    "waits.workload.RecentUse": (used, {"half_life_s": 9.0, "amount": 4.0, "at_s": 5.0}),
    "waits.error_record.class_of": (
        partial(class_of, partition="p"),
        {"median_s": 9.0, "share": 0.5, "at_s": 5.0, "waiting": 7},
    ),
    "waits.estimate.certain": (None, {"wait_s": 9.0}),
    "waits.error_record.spread_of": (None, {"draws_s": [1.0, 5.0, 9.0]}),
    "waits.error_record.error_of": (
        None, {"draws_s": [1.0, 5.0, 9.0], "of": WAITING, "at_s": 5.0, "actual_s": 9.0},
    ),
    "waits.error_record.WaitRecord": (
        lambda draws_s: WaitRecord().estimate(draws_s, WAITING), {"draws_s": [1.0, 5.0, 9.0]},
    ),
    "waits.estimate.WaitEstimate": (
        lambda waits_s, share, seconds: (
            WaitEstimate(tuple(waits_s)).later(seconds).quantile(share)
        ),
        {"waits_s": [1.0, 5.0, 9.0], "share": 0.5, "seconds": 2.0},
    ),
    "waits.estimate.log_quantiles": (None, {"run": FIT.predict([4])[0]}),
    "refit.fits_of": (
        lambda now_s, workers: fits_of(NOTHING, now_s=now_s, workers=workers),
        {"now_s": 5.0, "workers": 1},
    ),
    "models.adept.model.AdeptFit": (
        lambda nodes, level: (
            ADEPT.predict(nodes, level), ADEPT.roughly(nodes), [ADEPT.instance(n) for n in nodes],
        ),
        {"nodes": NODES, "level": 0.9},
    ),
    "models.adept.model.judge": (
        None,
        {
            "nodes": N, "times": T, "fitted": T, "instance": BEYOND, "envelope": ENVELOPE,
        },
    ),
    "models.adept.search.best_for": (
        None,
        {"nodes": N, "times": T, "mode": VarianceMode.LOW, "envelope": ENVELOPE, "steps": 8},
    ),
    "models.adept.anomalies.special_counts": (
        None,
        {"nodes": N, "times": T, "settings": AnomalySettings(), "noise": np.full(5, 0.03)},
    ),
    "job_table.over_nodes": (None, {"table": TABLE, "cpus": 4}),
    "models.adept.envelope.everything": (None, {"last": 16.0, "bounds": Bounds()}),
    "forecasts.adrm.RawBandwidth": (
        lambda **given: pairs_of(RawBandwidth(), **given), {"probe": 2.0, "transfer": 3.0},
    ),
    "forecasts.adrm.Throughput": (Throughput(2.0, 1.0, 3.0).seconds, {"size_bytes": 9.0}),
    "models.averaged.model.AveragedFit": (
        partial(asked, FIT), {"nodes": NODES, "level": 0.9, "shares": [0.5, 0.9]},
    ),
    "models.two_sizes.TwoSizesFit": (
        partial(asked, TwoSizes().fit(sized([replace_data(CURVE, each=k) for k in (2, 4)], 4))),
        {"nodes": NODES, "level": 0.9, "shares": [0.5, 0.9]},
    ),
    "node_types.product_form.gram": (None, {"rows": np.ones((1, 2))}),
    "occupancy.functions.reference_of": (None, {"reference": AMOUNTS[0], "names": ["cpu"]}),
    "occupancy.functions.Function": (
        lambda amounts: (FUNCTION(amounts), FUNCTION.value(amounts)), {"amounts": {"cpu": 2.0}},
    ),
    "occupancy.fit.Support": (
        supported(AMOUNTS, ["cpu", "lat"]).doubts, {"asked": {"cpu": 2.0, "lat": 5.0}},
    ),
    "forecasts.adrm.together": (None, {"probes": [1.0, 2.0]}),
    "forecasts.adrm.AdRM": (
        transferred,
        {"pairs": [1.0, 2.0, 3.0], "probe": 2.0, "window": 3},
    ),
    "models.base.quantiles": (None, {"fit": FIT, "nodes": NODES, "shares": [0.5, 0.9]}),
    "models.base.most_informative": (None, {"fit": FIT, "candidates": NODES, "targets": NODES}),
    "models.base.need": (None, {"curve": CURVE, "points": 3}),
    "occupancy.bottleneck.learn_bottleneck": (
        None,
        {
            "samples": AMOUNTS, "compute_s": np.array([8.0, 4.0, 2.0, 8.0]),
            "stall_s": np.array([1.0, 5.0, 7.0, 0.0]), "reference": AMOUNTS[0],
            "attributes": ["cpu", "lat"],
        },
    ),
    "models.downey.speedup": (None, {"nodes": NODES, "A": 8.0, "sigma": 0.5}),
    "models.downey.max_useful": (None, {"A": 8.0, "sigma": 0.5}),
    "models.adept.envelope.envelope": (None, {"nodes": N, "times": T, "delta": 0.05}),
    "models.adept.anomalies.diagnose": (None, {"nodes": N, "times": T}),
    "models.adept.search.search": (
        None,
        {
            "nodes": N, "times": T, "weight": np.ones((1, 5)), "targets": np.array([3.0]),
            "envelope": ENVELOPE, "settings": SearchSettings(),
        },
    ),
    "models.adept.search.weights": (
        None, {"targets": np.array([3.0]), "nodes": N, "q": 4.0},
    ),
    "occupancy.regression.LinearOccupancyModel": (
        lambda samples: LinearOccupancyModel().fit(samples), {"samples": SAMPLES},
    ),
    "occupancy.regression.percentage_error": (
        None, {"predicted": 1.0, "actual": 2.0, "whole": 4.0},
    ),
    "occupancy.regression.part_errors": (
        None, {"predicted": MEASURED, "actual": MEASURED},
    ),
    "occupancy.application_model.OccupancyModel": (
        lambda samples: OccupancyModel().fit(samples), {"samples": SAMPLES},
    ),
    "occupancy.application_model.OccupancyFit": (
        PROFILE.predict, {"attributes": {"cpu": 2.0, "lat": 5.0}, "level": 0.9},
    ),
    "occupancy.functions.transformation": (None, {"name": "cpu", "faster": frozenset({"cpu"})}),
    "occupancy.fit.judged_by": (
        None, {"fit": PROFILE, "samples": SAMPLES, "predicted": MEASURED},
    ),
    "node_types.product_form.terms": (None, {"resources": ["cpu", "nodes"]}),
    "node_types.product_form.explanatory": (None, {"resources": ["cpu"], "amounts": {"cpu": 2.0}}),
    "node_types.product_form.Sums": (
        Sums.none(("cpu",)).add, {"amounts": {"cpu": 2.0}, "time_s": 3.0, "times": 1},
    ),
    "node_types.product_form.ProductFit": (
        ProductForm().fit(SUMS).predict, {"amounts": {"cpu": 2.0}, "level": 0.9},
    ),
    "node_types.product_form.ProductForm": (
        lambda runs: ProductForm().fit(
            Sums.none(("cpu",)).add_all([({"cpu": c}, 5 + c) for c in runs])
        ),
        {"runs": [1.0, 2.0, 4.0, 8.0]},
    ),
    "occupancy.samples.occupancies": (
        None, {"utilisation": 0.5, "time_s": 9.0, "data_bytes": 1e9, "network_share": 0.5},
    ),
    "occupancy.samples.checked": (None, {"samples": SAMPLES, "reference": AMOUNTS[0]}),
    "occupancy.samples.from_the_others": (None, {"samples": SAMPLES, "learn": len}),
    "occupancy.fit.supported": (None, {"samples": AMOUNTS, "names": ["cpu", "lat"]}),
    "occupancy.fit.beyond": (None, {"value": 9.0, "low": 1.0, "high": 4.0}),
    "occupancy.regression.learn": (
        None,
        {
            "samples": AMOUNTS, "values": [8.0, 4.0, 2.0, 8.0], "reference": AMOUNTS[0],
            "attributes": ["cpu", "lat"], "noise": 0.1, "sizes": [1.0, 2.0, 3.0, 4.0],
        },
    ),
    "occupancy.regression.linear": (
        None,
        {
            "samples": AMOUNTS, "values": [8.0, 4.0, 2.0, 8.0], "reference": AMOUNTS[0],
            "terms": LINE, "sizes": [1.0, 2.0, 3.0, 4.0],
        },
    ),
    "occupancy.active.plackett_burman.signs": (None, {"count": 3}),
    "occupancy.active.refinement.binary_search": (
        lambda levels: [*binary_search(levels)], {"levels": [1.0, 2.0]},
    ),
    "occupancy.active.plackett_burman.effects": (
        None, {"space": SPACE, "runs": [(one, 1.0 + i) for i, one in enumerate(SPACE.candidates)]},
    ),
    "occupancy.active.plackett_burman.plackett_burman": (None, {"space": SPACE}),
    "occupancy.active.space.Space": (
        lambda levels: Space.full({"cpu": levels}, {"cpu": True}), {"levels": [1.0, 2.0]},
    ),
    "occupancy.active.settings.LearnerSettings": (
        None,
        {"target": 10.0, "fewest": 6, "in_a_row": 2, "improvement": 2.0, "test_runs": 10},
    ),
    "occupancy.active.learner.interval_percent": (
        None, {"expected": PROFILE.predict({"cpu": 2.0, "lat": 5.0})},
    ),
}  # fmt: skip
