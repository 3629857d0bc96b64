#!/usr/bin/env bash
# pods_test.sh MANIFEST PROGRAMS: runs roll_call in the pods that a Kubernetes manifest describes. Each pod is a host of machine.sh, with the
# names and the variables that the job's controller gives it. No Kubernetes runs. Exit code 77, with the reason, where there can be no hosts.
set -euo pipefail
manifest=$(realpath -- "$1") programs=$(realpath -- "$2")
# shellcheck source=tests/engines/machine.sh
source "$(dirname -- "$0")/machine.sh"
enter_own_machine "$0" "$@"
python=$(realpath "$(dirname -- "$0")/../..")/build/engines/kubernetes/bin/python
[ -x "$python" ] || python=python3
described=$("$python" -B "$(dirname -- "$0")/pods.py" "$manifest") || { echo "$described"; exit 77; }
mapfile -t pods <<<"$described"
start_hosts "${pods[@]%%$'\t'*}"
(umask 077 && head -c 32 /dev/urandom >"$engines_home/secret")
ranks=()
for pod in "${!pods[@]}"; do
  IFS=$'\t' read -r -a variables <<<"${pods[pod]#*$'\t'}"
  # The manifest mounts the secret at /etc/sinew, a folder that this machine need not have.
  "${enter[@]}" "${holder_of[pod]}" env "${variables[@]//\/etc\/sinew/$engines_home}" SINEW_TIMEOUT=60s "$programs/roll_call" >>"$said" 2>&1 &
  ranks+=($!)
done
for rank in "${ranks[@]}"; do wait "$rank" || wrong "a rank has failed"; done
cat "$said"
says 1 "^roll_call: ${#pods[@]} ranks on ${#pods[@]} hosts \(.*\), sums right$"
