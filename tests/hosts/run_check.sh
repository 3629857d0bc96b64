#!/usr/bin/env bash
# run_check.sh CASE SINEW_RUN: lets sinew-run --check examine hosts of which one cannot talk to the others, and judges which hosts the job
# runs on. The hosts are network namespaces of this machine. Needs root. Exit code 77: no namespaces here.
set -euo pipefail
case=$1 run=$2
# shellcheck source=tests/hosts/namespaces.sh
source "$(dirname -- "$0")/namespaces.sh"

wrong() {
  echo "run_check.sh $case: $1" >&2
  exit 1
}

# start CODE TEXT.. -- OPTION..: a job on three hosts must end with this code, and say each of these.
start() {
  local code=$1 texts=() text status=0
  shift
  while [ $# -gt 0 ]; do
    if [ "$1" = -- ]; then shift; break; fi
    texts+=("$1")
    shift
  done
  # shellcheck disable=SC2016 # the rank's variables
  said=$(on_all "$run" 1,1,1 --check "$@" sh -c 'echo "rank $RANK of $WORLD_SIZE"' 2>&1) || status=$?
  echo "$said"
  [ "$status" -eq "$code" ] || wrong "exit code $status, expected $code"
  for text in "${texts[@]}"; do
    grep -qF -- "$text" <<<"$said" || wrong "expected it to say '$text'"
  done
}

# Host 1 hears what comes to it over the second network, and cannot answer.
black_out() {
  local other
  for other in 0 2; do on 1 ip route add blackhole "$(address $other 1)/32"; done
}

case $case in
  well)
    make_hosts 3
    start 0 "check: host $(address 1): ok" "check: host $(address 2): ok" "rank 2 of 3" --
    ;;
  left_out)
    make_hosts 3 2
    black_out
    start 0 "check: host $(address 1): link: " "; cure: " "check: host $(address 2): ok" "rank 1 of 2" -- \
      --env SINEW_INTERFACE=link1 --nodes 2
    ;;
  needed)
    make_hosts 3 2
    black_out
    start 2 "the job needs 3 hosts or more, and what --check leaves has only 2; host $(address 1): link: " "; cure: " -- --env SINEW_INTERFACE=link1
    if grep -q '^rank' <<<"$said"; then wrong "a rank has started"; fi
    ;;
  cut_off) # the remote shell gets there, and the ranks there get nowhere
    make_hosts 3
    on 1 ip link set link0 down
    export SINEW_TIMEOUT=5s
    start 1 "--check: the hosts cannot be examined: host " "every host must reach the one of rank 0" -- --nodes 2
    # Whichever runs out of time first says it: another rank, which misses rank 1, or rank 1, which does not reach rank 0.
    grep -qE "rank 1 of 3 did not come|host $(address 1): .*$(address 0)" <<<"$said" || wrong "it does not name rank 1"
    ;;
  *) echo "run_check.sh: no case '$case'" >&2; exit 2 ;;
esac
