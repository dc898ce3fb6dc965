"""A job that names tasks or GPUs in all, and no nodes, is answered on the nodes of its runs."""

import json
import random
from dataclasses import dataclass

import pytest
from msgspec import structs

from sacct_ingest.runs.layout import Layout, Unit
from slurm_plugin.decision.messages import reason_text
from slurm_plugin.protocol.reasons import Reason
from tests.slurm_plugin.decision.submitting import advisor
from tests.slurm_plugin.made import NOW, cluster, job, partition, table
from tests.slurm_plugin.stored_advice.walk import Ran, advised, fitted

#: Tasks or GPUs of each node in made-up histories.
EACH = (2, 4, 8, 16)
OPTIONS = ("--ntasks", "--gpus")


@dataclass(frozen=True)
class History:
    """Runs of one command that has as many tasks or GPUs on each of its nodes."""

    option: str
    each: int
    names_nodes: bool
    counts: tuple[int, ...]
    repeats: int

    @classmethod
    def drawn(cls, rng: random.Random) -> "History":
        return cls(
            option=rng.choice(OPTIONS),
            each=rng.choice(EACH),
            names_nodes=rng.random() < 0.5,
            counts=tuple(sorted(rng.sample((2, 3, 4, 8), rng.choice((1, 1, 3))))),
            repeats=rng.choice((1, 4, 10)),
        )

    def asked(self, nodes: int) -> str:
        return f"{self.option}={self.each * nodes}"

    def runs(self, rng: random.Random) -> list[Ran]:
        gpus = self.each if self.option == "--gpus" else 0
        ran = []
        for nodes in self.counts * self.repeats:
            named = f"-N {nodes} " if self.names_nodes else ""
            seconds = (100 + 7200 / nodes) * rng.lognormvariate(0, 0.02)
            run = Ran(
                seconds=round(seconds),
                line=f"sbatch {named}{self.asked(nodes)} app.sh x",
                nodes=nodes,
                cpus=self.each * nodes,
                gpus=gpus * nodes,
            )
            ran.append(run)
        return ran


def headline(folder, *words):
    """Count that a job has, and its run time and limit there; no other count is advised."""
    said = json.loads(advised(folder, "--json", *words, "app.sh", "x"))
    assert said["nodes"] in (None, said["asked"])
    row = next(row for row in said["rows"] if row["nodes"] == said["asked"])
    return said["asked"], row["time_s"], row["limit_s"], said["time_directive"]


@pytest.mark.parametrize("seed", range(12))
def test_the_answer_is_that_of_the_nodes_that_its_runs_had(tmp_path, seed):
    rng = random.Random(seed)
    history = History.drawn(rng)
    fitted(tmp_path, history.runs(rng), 'srun app "$@"')
    nodes = rng.choice(history.counts)
    without = headline(tmp_path, history.asked(nodes))
    assert without == headline(tmp_path, "-N", str(nodes), history.asked(nodes))
    assert without[0] == nodes


def test_gpus_in_all_that_were_never_asked_for_are_on_as_many_nodes_as_the_runs_would_have(
    tmp_path,
):
    history = History("--gpus", 8, names_nodes=False, counts=(2, 4, 8), repeats=4)
    fitted(tmp_path, history.runs(random.Random(1)), 'srun app "$@"')
    nodes, time_s, *_ = headline(tmp_path, "--gpus=40")
    assert nodes == 5
    assert time_s == pytest.approx(100 + 7200 / 5, rel=0.1)


def test_gpus_that_no_node_of_the_runs_had_are_another_layout(tmp_path):
    history = History("--gpus", 8, names_nodes=False, counts=(2, 4), repeats=4)
    fitted(tmp_path, history.runs(random.Random(1)), 'srun app "$@"')
    said = advised(tmp_path, "--gpus=12", "app.sh", "x")
    assert said.startswith("There is no prediction for this layout.")


@pytest.mark.parametrize("time_of", [lambda n: 600.0 * n, lambda n: 7200.0 / n])
@pytest.mark.parametrize("nodes", [None, 4])
@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"num_tasks": 64, "min_cpus": 64}, Reason.FIXED_TASKS),
        ({"tres_per_job": "gres/gpu:32", "min_cpus": 4}, Reason.FIXED_CPUS),
    ],
)
def test_no_other_count_of_nodes_is_advised_on_which_it_would_be_laid_out_otherwise(
    time_of, nodes, fields, reason
):
    layout = Layout(16, 16) if "num_tasks" in fields else Layout(0, 0, gpus=8)
    service = advisor(
        tables=[table(time_of, level="tag", key="alice/cfd", layout=layout)],
        look=cluster(partition(node_cpus=16)),
    )
    request = job(comment="nimo:app=cfd", min_nodes=nodes, max_nodes=nodes, time_limit=480)
    advice = service.advise(structs.replace(request, **fields), now_s=NOW)
    assert advice.nodes == 4
    assert advice.reason == reason_text(reason, Unit.NODES)
