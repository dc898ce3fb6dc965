"""Workflows and what is known of them, for tests."""

from collections.abc import Mapping
from random import Random

from predictor.forecasts.transfer_time import transfer_time
from slurm_plugin.experiments.plan.run_times import BANDWIDTH, LATENCY, Copies, LearnedRunTimes
from slurm_plugin.experiments.plan.schedule import PlanningProblem
from slurm_plugin.experiments.plan.workflow_file import parse
from slurm_plugin.slurm.node_pool import profile

NOW = 1_795_000_000.0


def problem(text: str, nodes: Mapping[str, int] | int = 8, **learned: object) -> PlanningProblem:
    """Problem of a workflow's text on empty places of so many nodes."""
    flow = parse(text, name="flow.yaml")
    counts = nodes if isinstance(nodes, Mapping) else dict.fromkeys(flow.places, nodes)
    given = {"tables": {}, "fits": {}, "near": {LATENCY: 1e-4, BANDWIDTH: 1e9}} | learned
    return PlanningProblem(
        workflow=flow,
        runs=LearnedRunTimes(**given),
        transfers=Copies(flow=flow, measured=lambda *ends: transfer_time([], *ends, now_s=NOW)),
        free={name: profile([(NOW, count)]) for name, count in counts.items()},
        now_s=NOW,
    )


def random_text(draw: Random, *, tasks: int, places: int, counts: int) -> str:
    """Workflow of layers of tasks that pass on files, at places with a storage each."""
    names = [f"p{i}" for i in range(places)]
    lines = ["storages:", *(f"  s{i}: {{path: /s{i}}}" for i in range(places)), "links:"]
    lines += [
        f"  - {{from: s{i}, to: s{j}, bandwidth: {draw.choice([5, 20, 100])}M, latency: 1ms}}"
        for i in range(places)
        for j in range(i)
    ]
    lines += ["places:"]
    lines += [f"  {n}: {{storage: s{i}, speed: {1 + i / 2}}}" for i, n in enumerate(names)]
    lines += ["files:", f"  f: {{at: s{draw.randrange(places)}, size: {draw.randint(1, 2000)}M}}"]
    lines += [f"  f{i}: {{size: {draw.randint(1, 500)}M}}" for i in range(tasks)]
    lines += ["tasks:"]
    for i in range(tasks):
        reads = {f"f{draw.randrange(max(0, i - 12), i)}" for _ in range(min(i, 2))} or {"f"}
        times = {2**k: draw.uniform(20, 200) * 0.62**k for k in range(counts)}
        table = ", ".join(f"{n}: {t:.3f}" for n, t in times.items())
        lines.append(
            f"  t{i}: {{command: x, reads: [{', '.join(sorted(reads))}], writes: [f{i}], "
            f"run_time: {{{table}}}}}"
        )
    return "\n".join(lines)
