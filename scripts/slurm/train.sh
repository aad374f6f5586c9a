#!/usr/bin/env bash
# One training on several nodes:  CONFIG=big.yaml sbatch --nodes 2 scripts/slurm/train.sh
# PROCESSES: how many on each node (one for each GPU; 1 on CPUs). All nodes see the same data/ and runs/.
#SBATCH --job-name=tfm-train
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=8
#SBATCH --time=24:00:00
#SBATCH --signal=TERM@120
#SBATCH --requeue
#SBATCH --open-mode=append
set -euo pipefail

# A fresh store for each attempt: with the shared one, nodes that lost the first of them would wait for its address.
export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1
processes="${PROCESSES:-1}"
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-$(( SLURM_CPUS_PER_TASK / processes ))}"
first="$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)"

# Slurm's SIGTERM, 120 s before the end or when the job is preempted, reaches torchrun, and through it every process:
# they save and end. A worker that dies is started again by torchrun, a whole node by the next start of this job.
if ! srun --kill-on-bad-exit=1 torchrun \
    --nnodes "$SLURM_NNODES" --nproc-per-node "$processes" --max-restarts 3 \
    --rdzv-backend c10d --rdzv-endpoint "$first:29500" --rdzv-id "$SLURM_JOB_ID-${SLURM_RESTART_COUNT:-0}" \
    -m transformer_cli train --config "$CONFIG"; then
    (( ${SLURM_RESTART_COUNT:-0} < 20 )) || exit 1
    scontrol requeue "$SLURM_JOB_ID"
fi
