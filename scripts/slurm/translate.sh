#!/usr/bin/env bash
# A text in as many shards as the array has tasks:  INPUT=big.de OUTPUT=big.en sbatch --array 1-64 scripts/slurm/translate.sh
# RUN: the run that translates (its name or folder). Tasks that failed are given again: --array 3,17 needs N=64 then.
#SBATCH --job-name=tfm-translate
#SBATCH --cpus-per-task=2
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
set -euo pipefail

export OMP_NUM_THREADS="${OMP_NUM_THREADS:-$SLURM_CPUS_PER_TASK}"
srun tfm translate --run "$RUN" --input "$INPUT" --output "$OUTPUT" \
    --shard "$SLURM_ARRAY_TASK_ID/${N:-$SLURM_ARRAY_TASK_COUNT}"
