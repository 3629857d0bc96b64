#!/usr/bin/env bash
# two_jobs.sh SINEW_RUN RESHARD_JOB RATE MEGABYTES: a trainer of 4 ranks gives weights to inference of 3 ranks. They are two jobs on two
# hosts, which are network namespaces of this machine. RATE: of the link between them, such as 1gbit. Needs root. Exit
# code 77: no namespaces here.
set -euo pipefail
run=$1 program=$2 rate=$3 megabytes=$4
# shellcheck source=tests/hosts/namespaces.sh
source "$(dirname -- "$0")/namespaces.sh"
make_hosts 2 1 "$rate"
umask 077
head -c 32 /dev/urandom >"$folder/secret"
job() { # HOST RANKS ROLE
  SINEW_TIMEOUT=60s on "$1" "$run" -n "$2" "$program" "$3" 4 3 "$(address 0):29650" "$folder/secret" "$megabytes"
}
job 0 4 trainer & trainer=$!
job 1 3 inference
wait $trainer
