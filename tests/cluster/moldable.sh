#!/bin/bash
# Runs on any node count: 64 pieces of work, dealt out to the tasks.
#SBATCH --job-name=moldable
#SBATCH --time=10
srun sh -c 'i=$SLURM_PROCID; while [ $i -lt 64 ]; do sleep 0.5; i=$((i + SLURM_NTASKS)); done'
