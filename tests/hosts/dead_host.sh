#!/usr/bin/env bash
# dead_host.sh PROGRAM ARGUMENT..: four ranks on two hosts, network namespaces of this machine, run a program that goes on until it
# fails. Then the link between the hosts goes down. Prints what the ranks of the first host say. Needs root. Exit code 77: no
# namespaces here.
set -euo pipefail
# shellcheck source=tests/hosts/namespaces.sh
source "$(dirname -- "$0")/namespaces.sh"
# shellcheck source=tests/hosts/await.sh
source "$(dirname -- "$0")/await.sh"
make_hosts 2
umask 077 # secrets
head -c 32 /dev/urandom >"$folder/secret"
ranks=()
end_ranks() {
  local rank
  for rank in "${ranks[@]}"; do kill -9 "$rank" 2>/dev/null || true; done
  remove_hosts
}
trap end_ranks EXIT

for rank in 0 1 2 3; do
  on $((rank / 2)) env RANK=$rank WORLD_SIZE=4 LOCAL_RANK=$((rank % 2)) LOCAL_WORLD_SIZE=2 MASTER_ADDR="$(address 0)" MASTER_PORT=29600 \
    SINEW_TIMEOUT=40s SINEW_SECRET_FILE="$folder/secret" "$@" >"$folder/said$rank" 2>&1 &
  ranks+=($!)
done
await "the begin of a table" "${ranks[0]}" grep -qs '[0-9]' "$folder/said0"
sleep 1
ip -n "$name-1" link set link0 down
wait "${ranks[0]}" || true
wait "${ranks[1]}" || true
cat "$folder/said0" "$folder/said1"
