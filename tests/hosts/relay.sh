#!/usr/bin/env bash
# relay.sh CASE RELAY SINEW_RUN PROGRAMS: runs jobs on two hosts between which packets are late and get lost, and judges. PROGRAMS is the
# folder of sinew-bench and survivors. Needs root. Exit code 77: no namespaces or no /dev/net/tun here.
set -euo pipefail
case=$1 relay=$2 run=$3 programs=$4
# shellcheck source=tests/hosts/namespaces.sh
source "$(dirname -- "$0")/namespaces.sh"
export SINEW_TRANSPORTS=shm,tcp

wrong() {
  echo "relay.sh $case: $1" >&2
  exit 1
}

# sums COLLECTIVE RANKS: short and long messages must give right results, and none faster than one way takes.
sums() {
  on_all "$run" "$2" "$programs/sinew-bench" "$1" -b 64 -e 64KiB -f 1024 -n 1 -w 1 -c 1 --json "$folder/lines"
  jq -es 'length == 2 and all(.wrong == 0 and .time_us >= 5000)' "$folder/lines" >"$folder/judged" ||
    wrong "$1 gave wrong results, or was faster than the 5 ms of one way: $(cat "$folder/lines")"
  rm "$folder/lines"
}

# A job without a loss would prove nothing of losses.
must_have_lost() {
  kill $relayed
  wait $relayed || true
  tail -1 "$folder/relay"
  tail -1 "$folder/relay" | jq -e '.there.lost > 0 and .back.lost > 0' >"$folder/judged" || wrong "the relay has lost no packet"
  relayed=
}

# cut_way SIGNAL: a job runs, and the relay gets the signal. Each rank must name the one of the other host.
cut_way() {
  local job heard tries
  on_all "$run" 1,1 "$programs/survivors" --victim -1 --stamp "$folder/stamp" >"$folder/said" &
  job=$!
  sleep 3
  cut -d ' ' -f 1 /proc/uptime >"$folder/stamp"
  kill "-$1" $relayed
  for ((tries = 0; tries < 300; ++tries)); do
    heard=$(grep -c '{"rank"' "$folder/said" || true)
    [ "$heard" -lt 2 ] || break
    sleep 0.1
  done
  cat "$folder/said"
  sed -n 's/^\[[0-9]*\] {/{/p' "$folder/said" | jq -es \
    'length == 2 and all(.code == "PeerLost" and .lost == 1 - .rank and .seconds < 15 and (.message | contains("127.0.0.1") | not))' \
    >"$folder/judged" || wrong "expected each rank to name the other within 15 s, and no address of its own as the reason"
  wait $job || true
}

case $case in
  sums)
    relay_hosts "$relay" --delay-ms 5 --loss 0.01
    sums all_reduce 1,1
    sums all_to_all 2,1
    must_have_lost
    ;;
  streams)
    relay_hosts "$relay" --delay-ms 5 --loss 0.01
    SINEW_TCP_STREAMS=4 sums all_reduce 1,1
    must_have_lost
    ;;
  killed)
    relay_hosts "$relay" --delay-ms 1
    cut_way KILL
    ;;
  silent)
    relay_hosts "$relay" --delay-ms 1
    cut_way STOP
    ;;
  silent_streams)
    export SINEW_TCP_STREAMS=4
    relay_hosts "$relay" --delay-ms 1
    cut_way STOP
    ;;
  *) echo "relay.sh: no case '$case'" >&2; exit 2 ;;
esac
