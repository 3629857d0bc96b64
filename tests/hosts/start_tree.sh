#!/usr/bin/env bash
# start_tree.sh JOB PROGRAMS: starts 32 ranks on 16 hosts over a tree of the hosts, two hosts below each. The hosts are network namespaces of
# this machine. PROGRAMS is the folder of sinew-run, exchange_probe and roll_call. Needs root. Exit code 77: no namespaces here.
#   variables  ranks find each other by RANK, MASTER_ADDR and a secret file; they make two exchanges and a World, whose sums are checked
#   twice      each rank runs a second program as soon as the first one has ended, at the same port
#   sinew_run  sinew-run starts them through its agents, which are the relays
#   killed     a relay dies while ranks wait for a host that does not come
set -euo pipefail
job=$1 programs=$2
# shellcheck source=tests/hosts/namespaces.sh
source "$(dirname -- "$0")/namespaces.sh"
hosts=16 ranks=32
make_hosts $hosts
umask 077 # the secret
head -c 32 /dev/urandom >"$folder/secret"
export SINEW_START_TREE=2:2 SINEW_LOG=debug

# rank RANK PROGRAM ARGUMENT..: two ranks are neighbours on each host
rank() {
  local rank=$1
  shift
  on $((rank / 2)) env RANK="$rank" LOCAL_RANK=$((rank % 2)) WORLD_SIZE=$ranks LOCAL_WORLD_SIZE=2 MASTER_ADDR="$(address 0)" \
    MASTER_PORT=29600 SINEW_TIMEOUT=60s SINEW_SECRET_FILE="$folder/secret" "$@"
}

# start FIRST LAST PROGRAM ARGUMENT..: their output goes to $folder/RANK, their processes to $started
started=()
start() {
  local first=$1 last=$2 r
  shift 2
  for ((r = first; r <= last; ++r)); do
    rank "$r" "$@" >"$folder/$r" 2>&1 &
    started+=($!)
  done
}
wait_for_all() {
  local status=0 process
  for process in "${started[@]}"; do wait "$process" || status=1; done
  return $status
}
# await COUNT TEXT FILE: waits until the file has so many lines with the text. Fails after a minute, or if a rank has ended.
await() {
  local tries process
  for ((tries = 0; tries < 1200; ++tries)); do
    if [ "$(grep -cs -- "$2" "$3" || true)" -ge "$1" ] 2>/dev/null; then return; fi
    for process in "${started[@]}"; do
      kill -0 "$process" 2>/dev/null || show_and_fail "a rank has ended before there were $1 lines with '$2'"
    done
    sleep 0.05
  done
  show_and_fail "there are not $1 lines with '$2' after a minute"
}
show_and_fail() {
  echo "$1"
  tail -n 3 "$folder"/[0-9]*
  exit 1
}
# The server says at debug level where each relay belongs. All but the first host have one, and at most two of them are below the server.
check_tree() {
  local text=$1 relays at_root
  relays=$(grep -c ' is relay [0-9]*, below ' "$text") || true
  at_root=$(grep -c ' is relay [0-9]*, below 0$' "$text") || true
  [ "$relays" -eq "$2" ] || show_and_fail "$relays relays, expected $2"
  [ "$at_root" -le 2 ] || show_and_fail "$at_root relays below the server, expected 2 at most"
  echo "$relays relays, $at_root of them below the server"
}

case $job in
  variables)
    start 0 $((ranks - 1)) "$programs/exchange_probe" 2
    wait_for_all || show_and_fail "a rank failed"
    met=$(cat "$folder"/[0-9]* | grep -c 'secret shared') || true
    [ "$met" -eq $((2 * ranks)) ] || show_and_fail "$met exchanges of ranks, expected $((2 * ranks))"
    check_tree "$folder/0" $((hosts - 1))
    started=()
    start 0 $((ranks - 1)) "$programs/roll_call"
    wait_for_all || show_and_fail "a rank of the World failed"
    grep -E "^roll_call: $ranks ranks on $hosts hosts .*, sums right" "$folder/0" || show_and_fail "sums are not right"
    ;;
  twice)
    # shellcheck disable=SC2016
    start 0 $((ranks - 1)) sh -c '"$0" --linger && "$0"' "$programs/roll_call"
    wait_for_all || show_and_fail "a rank failed"
    right=$(grep -cE "^roll_call: $ranks ranks on $hosts hosts .*, sums right" "$folder/0") || true
    [ "$right" -eq 2 ] || show_and_fail "$right programs with right sums, expected 2"
    relays=$(grep -c ' is relay [0-9]*, below ' "$folder/0") || true
    [ "$relays" -ge $((2 * (hosts - 1))) ] || show_and_fail "$relays relays, expected $((2 * (hosts - 1))) at least"
    echo "$right programs, $relays relays"
    ;;
  sinew_run)
    list=localhost:2
    for ((h = 1; h < hosts; ++h)); do list+=,$(address $h):2; done
    SINEW_RSH=$rsh on 0 "$programs/sinew-run" --hosts "$list" "$programs/roll_call" >"$folder/0" 2>&1 || show_and_fail "the job failed"
    grep -E "roll_call: $ranks ranks on $hosts hosts .*, sums right" "$folder/0" || show_and_fail "sums are not right"
    check_tree "$folder/0" $((hosts - 1))
    ;;
  killed) # host 15 does not come. Host 1 has one rank alone, the relay, so that no other rank of the host takes its place
    start 0 2 "$programs/exchange_probe" 1
    await 1 ' is relay 1, below 0' "$folder/0"
    start 4 29 "$programs/exchange_probe" 1
    await 29 ' has come to the store' "$folder/0"
    below=$(grep ' below 1$' "$folder/0" | grep -o '^.*is relay [0-9]*' || true)
    [ -n "$below" ] || show_and_fail "no host is below the relay that dies"
    end_processes "$name-1"
    wait_for_all && show_and_fail "no rank failed"
    grep -q 'is cut off: rank 2 (process [0-9]* on host [^)]*), which leads to the store, is gone' "$folder/0" ||
      show_and_fail "rank 0 does not name the relay that died"
    named=$(grep -l 'rank 2 (process [0-9]* on host [^)]*)' "$folder"/[0-9]* | wc -l)
    [ "$named" -ge 20 ] || show_and_fail "$named ranks name the relay that died, expected at least 20"
    grep -h 'cut off' "$folder/0" | tail -n 1
    echo "$named of 29 ranks name the relay that died"
    ;;
  *) echo "start_tree.sh: no job '$job'" >&2; exit 2 ;;
esac
