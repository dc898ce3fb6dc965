"""Advice on jobs without a size in the unit of their history: no GPUs, or unknown CPUs."""

import pytest

from sacct_ingest.runs.layout import Each, Layout, Unit
from slurm_plugin.protocol.reasons import Reason
from tests.slurm_plugin.decision.submitting import advisor, submit
from tests.slurm_plugin.made import NOW, job, table
from tests.slurm_plugin.stored_advice.walk import Ran, advised, fitted

#: Requests of histories that are counted in GPUs or CPUs, with CPUs, GPUs and nodes of each run.
HISTORIES = {
    "GPUs with as many CPUs": [(f"--gpus={n} -c 16", 16, n, 1) for n in (1, 2, 4, 8)],
    "GPUs with CPUs of each": [(f"--gpus={n} --cpus-per-gpu=8", 8 * n, n, 1) for n in (1, 2, 4, 8)],
    "GPUs on several nodes": [(f"--gpus={n}", n, n, -(-n // 3)) for n in (1, 2, 4, 8, 12)],
    "CPUs": [(f"-c {n}", n, 0, 1) for n in (1, 2, 4, 8)],
    "tasks on several nodes": [(f"-n {n}", n, 0, -(-n // 3)) for n in (1, 2, 4, 8, 12)],
}
REQUESTS = [
    *("", "--exclusive", "-N 2", "-N 1-4", "-n 4", "-c 16", "--gpus=2", "--gpus=3 -c 16"),
    *("-N 2 --gpus-per-node=4", "--exclusive -N 2", "-N 2 -n 8", "-n 8 --gpus-per-task=1"),
    "--gpus-per-socket=1 -N 1",
]


def fitted_on(folder, history):
    """Fit three runs of each size."""
    ran = []
    for words, cpus, gpus, nodes in HISTORIES[history] * 3:
        seconds = round(100 + 4000 / (gpus or cpus)) + len(ran) % 3
        line = f"sbatch {words} app.sh x"
        ran.append(Ran(seconds=seconds, line=line, cpus=cpus, gpus=gpus, nodes=nodes))
    fitted(folder, ran, 'srun app "$@"')


@pytest.mark.parametrize("history", HISTORIES)
def test_every_optionshas_an_answer_after_every_history(history, tmp_path):
    """Of the command that ran, and of another one of its name."""
    fitted_on(tmp_path, history)
    for request in REQUESTS:
        for command in ("x", "new"):
            said = advised(tmp_path, *request.split(), "app.sh", command)
            assert said, (request, command)
            counted_in_gpus = " GPU (9 of 10" in said or " GPUs (9 of 10" in said
            assert "--gpus" in request or not counted_in_gpus, (request, command)


@pytest.mark.parametrize("each", [Each.JOB, Each.GPU, Each.ANY])
def test_a_job_without_gpus_is_kept_after_runs_that_are_counted_in_gpus(each):
    layout = Layout(gpus=None, each=each)
    service = advisor(tables=[table(level="tag", key="alice/cfd", unit=Unit.GPUS, layout=layout)])
    request = job(comment="nimo:app=cfd", min_nodes=2, max_nodes=2)
    answer, record = submit(service, request)
    assert (answer.action, answer.set) == ("keep", None)
    assert record.reason in (Reason.OTHER_LAYOUT, Reason.FIXED_COUNT)
    assert service.advise(request, now_s=NOW).verdict == "refused"


@pytest.mark.parametrize(
    ("history", "options", "sentence"),
    [
        ("GPUs with as many CPUs", "", "All runs had GPUs, this job has none"),
        ("CPUs", "--exclusive", "All runs had a number of CPUs, this job has all that its nodes"),
    ],
)
def test_what_it_lacks_is_said(history, options, sentence, tmp_path):
    fitted_on(tmp_path, history)
    said = " ".join(advised(tmp_path, *options.split(), "app.sh", "x").split())
    assert sentence in said
