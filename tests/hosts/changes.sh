#!/usr/bin/env bash
# changes.sh CHANGES SINEW_RUN GPT RANKS,.. OPTION..: disturbs a training on several hosts, network namespaces of this machine, with so
# many ranks each. The options are those of the program CHANGES (tests/apps/changes). All processes of a host are killed at once, too, and
# come back. Prints what CHANGES prints. Needs root. Exit code 77: no namespaces here.
set -euo pipefail
changes=$1 run=$2 gpt=$3
IFS=, read -r -a ranks <<<"$4"
shift 4
# shellcheck source=tests/hosts/namespaces.sh
source "$(dirname -- "$0")/namespaces.sh"
make_hosts "${#ranks[@]}"
hosts=localhost:${ranks[0]} total=${ranks[0]}
for ((host = 1; host < ${#ranks[@]}; ++host)); do
  hosts+=,$(address "$host"):${ranks[host]}
  total=$((total + ranks[host]))
done
SINEW_RSH=$rsh on 0 "$changes" --gpt "$gpt" --sinew-run "$run" --hosts "$hosts" --ranks "$total" "$@"
