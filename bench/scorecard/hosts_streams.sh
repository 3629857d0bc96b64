# tcp with several connections for each pair of ranks against one, where one connection is limited: by how much it may have under way over a
# long way, and by lost packets. The way is tests/hosts/relay over TUN devices; what it carries without delay and loss is printed with each row.
source bench/scorecard/lib/row.sh
source bench/scorecard/lib/hosts.sh
need_hosts hosts_streams "several connections for each pair"
export SINEW_TRANSPORTS=tcp
calls=3
if [ -n "${SHORT:-}" ]; then calls=1; fi

if [ ! -e /dev/net/tun ]; then
  row hosts_streams "several connections for each pair" "measured" "not measured: no /dev/net/tun here" false
  exit 0
fi

# streams_row NAME WHAT BYTES WINDOW MUST OPTION..: OPTIONs are the relay's; WINDOW in bytes, or - for the kernel's own
streams_row() {
  local name=$1 what=$2 bytes=$3 window=$4 must=$5 found
  shift 5
  found=$(
    source tests/hosts/namespaces.sh
    relay_hosts "$PWD/$bin/tun_relay" "$@"
    if [ "$window" != - ]; then
      for host in 0 1; do limit_window $host "$window"; done
    fi
    for streams in 1 8; do
      SINEW_TCP_STREAMS=$streams on_all "$PWD/$bin/sinew-run" 1,1 "$PWD/$bin/sinew-bench" sendrecv -b "$bytes" -e "$bytes" -n $calls -w 1 \
        --json "$scratch/$streams" >&2
    done
    jq -s --slurpfile relay "$folder/relay" '{times: (.[0].time_us / .[1].time_us), wrong: (map(.wrong) | add),
      rates: (map(.bytes / .time_us * 10 | round / 10 | tostring) | join(" and ")), limit: $relay[0].limit_bytes_per_s}' "$scratch/1" "$scratch/8"
  )
  rm "$scratch/1" "$scratch/8"
  row "$name" "sendrecv of $bytes between two hosts, $what: time with one connection / with 8" ">= $must" \
    "$(jq -r '"\(.times * 100 | round / 100) (\(.rates) MB/s; the relay itself carries \(.limit / 1e6 | round) MB/s)"' <<<"$found")" \
    "$(jq --argjson must "$must" '.wrong == 0 and .times >= $must' <<<"$found")"
}

streams_row hosts_streams_window "10 ms one way, 256 KiB of window" 16MiB 262144 4 --delay-ms 10
# Where the last packet of a message is lost, its connection waits for 200 ms. Long messages show the rate and not that wait.
streams_row hosts_streams_loss "5 ms one way, 0.5 % of the packets lost" 8MiB - 3 --delay-ms 5 --loss 0.005
