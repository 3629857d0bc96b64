#!/usr/bin/env bash
# hosts.sh v4|v6 PYTHON SCRIPT ARGUMENTS...: two ranks on two hosts, which are network namespaces of this machine. No interface
# is named, and the hosts' own names cannot be resolved. v6: the link has IPv6 addresses only. Needs root.
# Exit code 77: no namespaces here.
set -euo pipefail
family=$1
shift
# shellcheck source=tests/hosts/namespaces.sh
source "$(dirname -- "$0")/../hosts/namespaces.sh"
make_hosts 2
meeting=$(address 0)
if [ "$family" = v6 ]; then
  meeting=fd00:213::1
  for host in 0 1; do
    ip -n "$name-$host" addr del "$(address "$host")/24" dev link0
    ip -n "$name-$host" addr add "fd00:213::$((host + 1))/64" dev link0 nodad
  done
fi
rank() {
  on "$1" env -u GLOO_SOCKET_IFNAME -u SINEW_INTERFACE RANK="$1" LOCAL_RANK=0 WORLD_SIZE=2 LOCAL_WORLD_SIZE=1 \
    MASTER_ADDR="$meeting" MASTER_PORT=29600 timeout 60 "${@:2}"
}
rank 1 "$@" &
other=$!
rank 0 "$@" || { wait $other; exit 1; }
wait $other
