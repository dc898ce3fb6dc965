"""Numbers that a script sets itself."""

import pytest

from sacct_ingest.scripts.script_sizes import fixed_sizes, task_multiple


@pytest.mark.parametrize(
    ("line", "result"),
    [
        ("export OMP_NUM_THREADS=8", {"cpus": "OMP_NUM_THREADS=8"}),
        ('OMP_NUM_THREADS="4" ./solve', {"cpus": 'OMP_NUM_THREADS="4'}),
        ("export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK", {}),
        ("# export OMP_NUM_THREADS=8", {}),
        ("mpirun -np 16 ./solve", {"tasks": "-np 16"}),
        ("mpiexec.hydra -n 16 ./solve", {"tasks": "-n 16"}),
        ("mpirun -np $SLURM_NTASKS ./solve -n 16", {}),
        ("mpirun ./solve; ./other -np 4", {}),
        ("srun -n4 ./solve", {"tasks": "-n4"}),
        ("srun --ntasks=4 ./solve", {"tasks": "--ntasks=4"}),
        ("srun -N 2 ./solve", {"nodes": "-N 2"}),
        (
            "torchrun --nnodes=2 --nproc-per-node=4 t.py",
            {"gpus": "--nproc-per-node=4", "nodes": "--nnodes=2"},
        ),
        ("torchrun --nproc_per_node $SLURM_GPUS_ON_NODE t.py", {}),
        ("export CUDA_VISIBLE_DEVICES=0,1", {"gpus": "CUDA_VISIBLE_DEVICES=0,1"}),
        (
            "foamDictionary -entry numberOfSubdomains -set 16 system/decomposeParDict",
            {"tasks": "numberOfSubdomains -set 16"},
        ),
        (
            "echo 'numberOfSubdomains  8;' > system/decomposeParDict",
            {"tasks": "numberOfSubdomains  8"},
        ),
        ("foamDictionary -entry numberOfSubdomains -set $SLURM_NTASKS d", {}),
    ],
)
def test_what_a_script_fixes(line, result):
    assert fixed_sizes(f"#!/bin/bash\n#SBATCH -n 4\n{line}\n") == result


@pytest.mark.parametrize(
    ("line", "arguments", "multiple"),
    [
        ("srun vasp_std", "", 1),
        ("echo 'KPAR = 4' >> INCAR", "", 4),
        ("cat > INCAR <<END\nKPAR=2\nNCORE = 4\nEND", "", 8),
        ("cat > INCAR <<END\nNPAR=2\nNCORE = 4\nEND", "", 2),  # VASP goes by NPAR then
        ("cat > INCAR <<END\n# KPAR=2\nEND", "", 1),
        ("srun pw.x -nk 3 -in scf.in", "", 3),
        ("srun pw.x -npool 2", "", 2),
        ("srun ./solve -nklist 3 --xkpar=4", "", 1),
        ("run-vasp $@", "--kpar 4 --ncore=2", 8),
        ("KPAR=99999", "", 1),
    ],
)
def test_what_the_number_of_tasks_is_a_multiple_of(line, arguments, multiple):
    assert task_multiple(f"#!/bin/bash\n#SBATCH -n 4\n{line}\n", arguments) == multiple
