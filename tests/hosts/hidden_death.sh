#!/usr/bin/env bash
# hidden_death.sh START SINEW_RUN SURVIVORS VICTIM LEAVES: three ranks on three hosts, network namespaces of this machine; rank VICTIM
# leaves something behind that holds its descriptors, and dies. START: sinew_run, variables, torchrun, slurm or openmpi. Prints what the
# survivors say. Needs root. Exit code 77: no namespaces, or not what START needs, here.
set -euo pipefail
start=$1 run=$2 survivors=$3 victim=$4 leaves=$5
# shellcheck source=tests/hosts/namespaces.sh
source "$(dirname -- "$0")/namespaces.sh"
make_hosts 3
umask 077 # secrets
head -c 32 /dev/urandom >"$folder/secret"
: >"$folder/said"
program=("$survivors" --victim "$victim" --stamp "$folder/stamp" --leaves "$leaves")

# What was left behind holds the output of its rank: all that is started here writes to a file, and nobody waits for its end.
end_left_behind() {
  local host process
  for host in "${made[@]}"; do
    for process in $(ip netns pids "$host" 2>/dev/null); do kill -9 "$process" 2>/dev/null || true; done
  done
  remove_hosts
}
trap end_left_behind EXIT

# by_hand VARIABLES..: with RANK in them, of each rank in turn
by_hand() {
  local rank variables
  for rank in 0 1 2; do
    variables=("${@//RANK_HERE/$rank}")
    on "$rank" env "${variables[@]}" SINEW_TIMEOUT=40s SINEW_SECRET_FILE="$folder/secret" "${program[@]}" >>"$folder/said" 2>&1 &
  done
  wait
}

case $start in
  sinew_run) SINEW_TIMEOUT=40s on_all "$run" 1,1,1 "${program[@]}" >"$folder/said" 2>&1 || true ;;
  variables) by_hand RANK=RANK_HERE WORLD_SIZE=3 MASTER_ADDR="$(address 0)" MASTER_PORT=29600 ;;
  torchrun)
    by_hand RANK=RANK_HERE WORLD_SIZE=3 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 GROUP_RANK=RANK_HERE MASTER_ADDR="$(address 0)" \
      MASTER_PORT=29600 TORCHELASTIC_USE_AGENT_STORE=True TORCHELASTIC_RUN_ID=none
    ;;
  slurm)
    by_hand SLURM_PROCID=RANK_HERE SLURM_STEP_NUM_TASKS=3 SLURM_NTASKS=3 SLURM_LOCALID=0 SLURM_NODEID=RANK_HERE \
      SLURM_STEP_TASKS_PER_NODE='1(x3)' SLURM_TASKS_PER_NODE='1(x3)' SLURM_STEP_NODELIST='a[0-2]' SLURM_JOB_ID=7 SLURM_STEP_ID=0 \
      SLURM_STEP_NUM_NODES=3 MASTER_ADDR="$(address 0)"
    ;;
  openmpi)
    command -v mpirun.openmpi >/dev/null || { echo "Open MPI is not installed"; exit 77; }
    SINEW_TIMEOUT=40s OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 on 0 mpirun.openmpi --enable-recovery --oversubscribe \
      -mca plm_rsh_agent "$rsh" -mca oob_tcp_if_include "$(address 0)/24" -x SINEW_TIMEOUT \
      --host "localhost:1,$(address 1):1,$(address 2):1" -n 3 "${program[@]}" >"$folder/said" 2>&1 &
    # mpirun waits until nobody holds the output of its ranks any more, so what both survivors say is waited for instead.
    while kill -0 $! 2>/dev/null && [ "$(grep -c went_on "$folder/said")" -lt 2 ]; do sleep 0.1; done
    ;;
  *) echo "hidden_death.sh: no start '$start'" >&2; exit 2 ;;
esac
cat "$folder/said"
