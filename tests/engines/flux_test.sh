#!/usr/bin/env bash
# flux_test.sh CASE PROGRAMS: runs roll_call as Flux would, on two hosts. No registry has Flux, so tests/fakes/flux_shell.py stands for its
# shells: it sets the same variables and gives the same answers. Exit code 77, with the reason, where there can be no hosts.
set -euo pipefail
case=$1 roll_call=$(realpath -- "$2")/roll_call
# shellcheck source=tests/engines/machine.sh
source "$(dirname -- "$0")/machine.sh"
need_command python3 python3
enter_own_machine "$0" "$@"
start_hosts f0 f1
export SINEW_TIMEOUT=30s

# flux COMMAND..: prints its exit code last
flux() {
  local status=0
  python3 -B "$(dirname -- "$0")/../fakes/flux_shell.py" "$@" >"$said" 2>&1 || status=$?
  echo "exit code $status" >>"$said"
  cat "$said"
}

holders=${holder_of[0]},${holder_of[1]}
case $case in
  pmi)
    flux "$holders" 2 "$roll_call"
    says 1 '^roll_call: 4 ranks on 2 hosts \(f0:2 f1:2\), sums right$'
    says 1 '^flux_shell: requests: .*barrier_in [1-9].* put [1-9]'
    says 1 '^exit code 0$'
    ;;
  twice) # two programs after each other in a task
    # shellcheck disable=SC2016
    flux "$holders" 2 sh -c '"$0" && "$0"' "$roll_call"
    says 2 '^roll_call: 4 ranks on 2 hosts \(f0:2 f1:2\), sums right$'
    says 1 '^exit code 0$'
    ;;
  no_pmi) # as flux run -o pmi=off: no rank may take itself for a world of one
    flux --no-pmi "$holders" 2 "$roll_call"
    says 0 'sums right'
    says 4 '^roll_call: .*FLUX_JOB_SIZE'
    says 1 '^exit code 1$'
    ;;
  *) echo "flux_test.sh: no case '$case'" >&2; exit 2 ;;
esac
