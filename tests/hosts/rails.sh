#!/usr/bin/env bash
# rails.sh TRANSPORT SINEW_RUN SINEW_BENCH: two hosts, network namespaces of this machine, are joined by two links. Messages must be right,
# and each link must carry its half of them. Needs root. Exit code 77: no namespaces here.
set -euo pipefail
transport=$1 run=$2 bench=$3
# shellcheck source=tests/hosts/namespaces.sh
source "$(dirname -- "$0")/namespaces.sh"
export SINEW_TRANSPORTS=$transport SINEW_OFI_PROVIDER='tcp;ofi_rxm'
make_hosts 2 2 400mbit

# sent LINK: bytes that the first host has sent over it
sent() { ip -n "$name-0" -s -j link show "link$1" | jq '.[0].stats64.tx.bytes'; }

on_all "$run" 1,1 "$bench" all_reduce -b 4KiB -e 4MiB -f 32 -n 2 -w 1 -c 1 --json "$folder/lines"
cat "$folder/lines"
jq -es 'length == 3 and all(.wrong == 0)' "$folder/lines" >"$folder/judged" || { echo "rails.sh: wrong results" >&2; exit 1; }
first=$(sent 0) second=$(sent 1)
echo "over the first link $first bytes, over the second $second"
# The measurement of the links sends its shorter messages over one of them.
jq -en "[$first, $second] | min / add >= 0.3" >"$folder/judged" || { echo "rails.sh: one link has carried less than 30 % of the bytes" >&2; exit 1; }
