#!/usr/bin/env bash
# engines.sh PROGRAMS TABLE GROUP..: runs roll_call of the folder PROGRAMS, small_model.py and ray_job.py under each engine that ./run engines has installed below
# build, on the three hosts of slurm.sh. GROUP: slurm, mpi, torchrun, ray. Writes a row for each into TABLE: engine, version, ranks, hosts, verdict.
# Exit code 77, with the reason, where there can be no such hosts.
set -euo pipefail
programs=$(realpath -- "$1") table=$(realpath -m -- "$2") groups=("${@:3}")
# shellcheck source=tests/engines/slurm.sh
source "$(dirname -- "$0")/slurm.sh"
need_slurm
enter_own_machine "$0" "$@"
cd -- "$(dirname -- "$0")/../.."
# shellcheck source=cmake/run/peers.sh
source cmake/run/peers.sh
project=$PWD
start_slurm
: >"$table"
(umask 077 && head -c 32 /dev/urandom >"$engines_home/secret")
secret=(env "SINEW_SECRET_FILE=$engines_home/secret")
export SINEW_TIMEOUT=60s OMP_NUM_THREADS=1 CUDA_VISIBLE_DEVICES=
limit=(timeout -k 5 180)
roll_call=$programs/roll_call
torchrun=$project/build/torch/bin/torchrun

# row ENGINE VERSION RANKS HOSTS: what $said shows of them. PRRTE and Ray add lines of their own.
row() {
  local met verdict
  met=$(sed -nE 's/^(\[0\] )?(roll_call: ([0-9]+) ranks on ([0-9]+) hosts \(.*\), sums right$|small_model: ([0-9]+) ranks on ([0-9]+) hosts \(.*\), losses equal: .*)/\3\5 ranks on \4\6 hosts/p' "$said")
  if [ "$met" = "$3 ranks on $4 hosts" ]; then
    verdict=works
  elif [ -n "$met" ]; then
    verdict="fails: $(paste -sd , <<<"$met")"
  else
    verdict="fails: $(grep -m 1 -E 'roll_call: |small_model: |Error' "$said" || tail -n 1 "$said")"
  fi
  printf '%s\t%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "$4" "$verdict" >>"$table"
  tail -n 1 "$table"
  if [ "$verdict" != works ]; then sed 's/^/  said: /' "$said"; fi
}

# try ENGINE VERSION RANKS HOSTS COMMAND..
try() {
  local -a what=("${@:1:4}")
  shift 4
  "$@" >"$said" 2>&1 || true
  row "${what[@]}"
}

# in_batch COMMAND..: in a batch script of an allocation of two tasks on each node
in_batch() { "${limit[@]}" "${enter[@]}" "${holder_of[$slurm_nodes]}" sbatch --wait -o "$said" -N3 -n6 --ntasks-per-node=2 --wrap "$*" >/dev/null; }
on_n0() { "${limit[@]}" "${enter[@]}" "${holder_of[0]}" "$@"; }

# on_first COUNT COMMAND..: on that many nodes at once, with the number of the node for the word NODE
on_first() {
  local node waits_for=() count=$1
  shift
  for ((node = 0; node < count; ++node)); do
    "${limit[@]}" "${enter[@]}" "${holder_of[$node]}" "${@//NODE/$node}" &
    waits_for[node]=$!
  done
  wait "${waits_for[@]}"
}
on_each() { on_first $slurm_nodes "$@"; }
on_two() { on_first 2 "$@"; }

slurm_rows() {
  local version
  local -a step=(srun -N3 -n6 --ntasks-per-node=2)
  version=$(srun --version | grep -oE '[0-9.]+')
  try "srun --mpi=pmi2" "$version" 6 3 at_login "${step[@]}" --mpi=pmi2 "$roll_call"
  try "srun --mpi=pmix" "$version" 6 3 at_login "${step[@]}" --mpi=pmix "$roll_call"
  try "srun, MUNGE" "$version" 6 3 at_login "${step[@]}" --mpi=none "$roll_call"
  try "srun, secret" "$version" 6 3 at_login "${secret[@]}" "${step[@]}" --mpi=none "$roll_call"
}

mpi_rows() {
  local name folder version launcher
  local -a settings launchers
  for name in openmpi mpich impi; do
    folder=$(peer_folder "$name")
    mapfile -t settings < <(peer_environment "$name")
    settings+=("PATH=$folder/bin:$PATH")
    version=$("$folder/bin/python" -m pip list --format freeze 2>/dev/null | sed -nE 's/^(openmpi|mpich|impi-rt)==//p')
    launchers=(mpiexec)
    if [ "$name" = mpich ]; then launchers=(mpiexec mpiexec.gforker "mpiexec -pmi-port"); fi
    for launcher in "${launchers[@]}"; do
      # shellcheck disable=SC2086
      try "$launcher of $name" "$version" 3 1 on_n0 env "${settings[@]}" $launcher -n 3 "$roll_call"
    done
    launcher=mpiexec
    if [ "$name" = openmpi ]; then launcher="mpiexec --map-by ppr:2:node"; fi # else it fills the first node, which it may oversubscribe
    try "mpiexec of $name, in Slurm" "$version" 6 3 in_batch env "${settings[@]}" "$launcher" -n 6 "$roll_call"
  done
}

torchrun_rows() {
  local version
  local -a two=(--nnodes=2 --nproc-per-node=2 --master-addr=127.0.0.1 --master-port=29502 --no-python "$roll_call")
  local -a static=(--nnodes=3 --nproc-per-node=2 --master-addr="$(address 0)" --master-port=29500 --no-python "$roll_call")
  version=$(build/torch/bin/python -c 'import torch; print(torch.__version__)')
  try "torchrun --standalone" "$version" 3 1 on_n0 "$torchrun" --standalone --nproc-per-node=3 --no-python "$roll_call"
  # shellcheck disable=SC2016
  try "torchrun, two agents on a host" "$version" 4 1 on_n0 sh -c '"$0" --node-rank=0 "$@" & "$0" --node-rank=1 "$@"; wait' "$torchrun" "${two[@]}"
  try "torchrun, static, MUNGE" "$version" 6 3 on_each "$torchrun" --node-rank=NODE "${static[@]}"
  try "torchrun, static" "$version" 6 3 on_each "${secret[@]}" "$torchrun" --node-rank=NODE "${static[@]}"
  two=(--nnodes=2 --nproc-per-node=2 --master-addr="$(address 0)" --master-port=29503)
  try "torchrun, static, small model" "$version" 4 2 on_two "$torchrun" --node-rank=NODE "${two[@]}" "$project/tests/engines/small_model.py"
  two=(--nnodes=2 --nproc-per-node=2 --rdzv-backend=c10d --rdzv-endpoint="$(address 0):29504" --rdzv-id=small_model --local-addr=nNODE)
  try "torchrun, c10d, small model" "$version" 4 2 on_two "$torchrun" "${two[@]}" "$project/tests/engines/small_model.py"
  try "torchrun, c10d" "$version" 6 3 on_each "${secret[@]}" "$torchrun" --nnodes=3 --nproc-per-node=2 --rdzv-backend=c10d \
    --rdzv-endpoint="$(address 0):29501" --rdzv-id=roll_call --local-addr=nNODE --no-python "$roll_call"
  # shellcheck disable=SC2016
  try "torchrun, in Slurm" "$version" 6 3 in_batch "${secret[@]}" srun --ntasks-per-node=1 -n3 sh -c "'exec $torchrun --node-rank=\$SLURM_NODEID ${static[*]}'"
}

ray_rows() {
  local version node job
  local -a ray=("$project/build/engines/ray/bin/python" "$project/build/engines/ray/bin/ray")
  version=$(build/engines/ray/bin/python -c 'import ray; print(ray.__version__)' 2>/dev/null)
  export RAY_USAGE_STATS_ENABLED=0 RAY_TRAIN_V2_ENABLED=1
  on_n0 "${ray[@]}" start --head --node-ip-address="$(address 0)" --port=6379 --num-cpus=2 --include-dashboard=false >"$engines_home/ray.log" 2>&1 || cat "$engines_home/ray.log"
  in_node 1 "${ray[@]}" start --address="$(address 0):6379" --node-ip-address="$(address 1)" --num-cpus=2 >"$engines_home/ray.log" 2>&1 || cat "$engines_home/ray.log"
  for job in actors train model program; do
    try "Ray, $job" "$version" 4 2 on_n0 "${ray[0]}" "$project/tests/engines/ray_job.py" "$job" "$engines_home" "$roll_call"
  done
}

for group in "${groups[@]}"; do "${group}_rows"; done
