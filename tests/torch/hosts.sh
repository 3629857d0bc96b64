#!/usr/bin/env bash
# hosts.sh v4|v6 RANKS PYTHON SCRIPT ARGUMENTS...: a job on two hosts, which are network namespaces of this machine, with so many ranks
# on each. The link between the hosts is slower than memory, as links are. No interface is named, and the hosts' own names cannot be
# resolved. v6: the link has IPv6 addresses only. Needs root. Exit code 77: no namespaces here.
set -euo pipefail
family=$1 ranks=$2
shift 2
# shellcheck source=tests/hosts/namespaces.sh
source "$(dirname -- "$0")/../hosts/namespaces.sh"
make_hosts 2 1 2gbit
meeting=$(address 0)
if [ "$family" = v6 ]; then
  meeting=fd00:213::1
  for host in 0 1; do
    ip -n "$name-$host" addr del "$(address "$host")/24" dev link0
    ip -n "$name-$host" addr add "fd00:213::$((host + 1))/64" dev link0 nodad
  done
fi
rank() {
  on $(($1 / ranks)) env -u GLOO_SOCKET_IFNAME -u SINEW_INTERFACE RANK="$1" LOCAL_RANK=$(($1 % ranks)) \
    WORLD_SIZE=$((2 * ranks)) LOCAL_WORLD_SIZE="$ranks" MASTER_ADDR="$meeting" MASTER_PORT=29600 timeout 90 "${@:2}"
}
started=()
for ((i = 0; i < 2 * ranks; ++i)); do
  rank "$i" "$@" &
  started+=($!)
done
status=0
for process in "${started[@]}"; do wait "$process" || status=1; done
exit $status
