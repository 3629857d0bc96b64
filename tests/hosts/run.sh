#!/usr/bin/env bash
# run.sh --launcher LAUNCHER --ranks A,B,.. [--links N] [--rate RATE] PROGRAM ARGUMENT..: runs a program on hosts that it makes out of
# network namespaces, A ranks on the first, B on the second, ... LAUNCHER: the file of a sinew-run, or mpirun.openmpi.
# Needs root. Exit code 77: no namespaces here.
set -euo pipefail
ranks='' links=1 rate='' launcher=
while [ $# -gt 0 ]; do
  case $1 in
    --ranks) ranks=$2 ;;
    --links) links=$2 ;;
    --rate) rate=$2 ;;
    --launcher) launcher=$2 ;;
    *) break ;;
  esac
  shift 2
done
# shellcheck source=tests/hosts/namespaces.sh
source "$(dirname -- "$0")/namespaces.sh"
IFS=, read -r -a hosts <<<"$ranks"
make_hosts "${#hosts[@]}" "$links" "$rate"
on_all "$launcher" "$ranks" "$@"
