"""Extra-P as a peer (``pip install extrap``); importing this fails where it is not installed."""

from collections.abc import Callable, Sequence

from extrap.entities.callpath import Callpath
from extrap.entities.coordinate import Coordinate
from extrap.entities.experiment import Experiment
from extrap.entities.measurement import Measurement
from extrap.entities.metric import Metric
from extrap.entities.parameter import Parameter
from extrap.modelers.model_generator import ModelGenerator


def fitted(nodes: Sequence[float], times: Sequence[float]) -> Callable[[float], float]:
    """Run time over nodes by its performance model normal form, on n T(n) as its authors advise."""
    experiment, path, metric = Experiment(), Callpath("main"), Metric("time")
    experiment.add_parameter(Parameter("n"))
    experiment.add_callpath(path)
    experiment.add_metric(metric)
    for n, t in zip(nodes, times, strict=True):
        at = Coordinate(float(n))
        experiment.add_coordinate(at)
        experiment.add_measurement(Measurement(at, path, metric, [float(n * t)]))
    generator = ModelGenerator(experiment)
    generator.model_all()
    function = generator.models[(path, metric)].hypothesis.function
    return lambda n: function.evaluate(float(n)) / n
