#!/bin/bash
#SBATCH --job-name=k3-parity-gate
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=4
#SBATCH --exclusive
#SBATCH --time=05:00:00
#SBATCH --signal=B:TERM@300
# Tensor parallel 16 over four nodes of four GPUs in one NVLink domain, which hold one server at a time: the gate is called three
# times, without servers, with the default path's, with the specialized path's. Submit it in the project's folder, on a disk that
# all nodes see, with python on the PATH that has the vLLM to be merged, its torch, and the dependencies of this suite, and with K3_PARITY_IMAGE, the
# digest of the image that runs, without which no record can be signed off.
set -u -o pipefail

if [ -z "${K3_PARITY_IMAGE:-}" ]; then
  echo "K3_PARITY_IMAGE is not set: no record of this job could be signed off" >&2
  exit 3
fi
OUT=${OUT:-$PWD/gate-runs/$SLURM_JOB_ID}
ARTIFACTS=${ARTIFACTS:-$PWD/gate-artifacts/$SLURM_JOB_ID}
PATIENCE=${PATIENCE:-3600} # seconds until a server has loaded the model and captured its graphs
PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH}
HEAD=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
URL=http://$HEAD:8000
RANKS="srun --overlap --ntasks-per-node=1 torchrun --nnodes 4 --nproc-per-node 4 --max-restarts 8"
RANKS="$RANKS --rdzv-backend c10d --rdzv-endpoint $HEAD:29500"
export HEAD PYTHONPATH K3_PARITY_IMAGE
mkdir -p "$OUT" "$ARTIFACTS"
code=3
server=

# The verdict is applied when artifacts are kept, whatever ends the job.
finish() {
  trap - EXIT TERM
  cp -r "$OUT"/. "$ARTIFACTS"/
  echo "$code" > "$ARTIFACTS/exit-code"
  stop # last: a server that does not end may take what is left of the job's time
  exit "$code"
}
trap finish EXIT

# In the background, so that the end of the job's time is told to it at once.
gate() {
  python -m validate gate "$@" &
  trap 'kill -TERM $!' TERM
  code=0
  wait $! || code=$?
  if [ "$code" -gt 130 ]; then # the trap ended that wait
    code=0
    wait $! || code=$?
  fi
  trap - TERM
  case $code in 1 | 130) exit "$code" ;; esac # a proven defect: no server is started; or the time is over
}

# serve ARM FIRST: the commands of its nodes are lines FIRST and the next three of those that the suite prints.
serve() {
  for node in 0 1 2 3; do
    python -m validate evals pre-merge-tp16 --commands | grep ' vllm serve ' | sed -n "$(($2 + node))p" > "$OUT/$1.$node.sh"
  done
  srun --overlap --ntasks-per-node=1 bash -c "exec bash '$OUT/$1.'\$SLURM_NODEID.sh" > "$OUT/$1.server.log" 2>&1 &
  server=$!
  for ((waited = 0; waited < PATIENCE; waited += 10)); do
    if curl --silent --fail --max-time 5 --output /dev/null "$URL/health"; then return; fi
    if ! kill -0 "$server" 2> /dev/null; then break; fi
    sleep 10
  done
  echo "the server of the $1 path does not come: $OUT/$1.server.log" >&2
  code=3
  exit 3
}

stop() {
  if [ -n "$server" ]; then
    kill -TERM "$server" 2> /dev/null
    wait "$server"
    server=
  fi
}

gate gb300-tp16 --output "$OUT" --over-ranks "$RANKS"
RUN=$(ls -d "$OUT"/*-gate-gb300-tp16 | tail -n 1) # the newest: a job that was queued again has more
[ -d "$RUN" ] || exit "$code"
serve default 1
gate --resume "$RUN" --default-url "$URL"
stop
serve specialized 5
gate --resume "$RUN" --specialized-url "$URL"
