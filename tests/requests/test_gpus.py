"""The store holds the GPUs that Slurm allocated, however they were asked for."""

from __future__ import annotations

from sacct_ingest.records import KeyLevel
from sacct_ingest.store import Store

#: Requests for GPUs, and how many the job gets in all.
GPUS = {
    "-N2 --gres=gpu:2": 4,
    "-N2 --gpus-per-node=1": 2,
    "-N2 --gpus=4": 4,
    "-N1 -n2 --gpus-per-task=1": 2,
    "-N2": None,
}


def test_gpus_of_runs_are_those_allocated(site):
    site.empty_queue()
    script = site.write_script("devices.sh", "#!/bin/sh\n#SBATCH --job-name=devices -t 5\n")
    jobs = {site.submit(*request.split(), script=script): request for request in GPUS}
    site.cluster.wait(*jobs, accounted=True)
    site.nimod.run("ingest")
    with Store.open(site.nimod.store, create=False) as store:
        rows = [row for _, rows in store.runs.by_key(KeyLevel.NAME) for row in rows]
    result = {jobs[row.job_id]: row.gpus for row in rows if row.job_id in jobs}
    assert result == GPUS
