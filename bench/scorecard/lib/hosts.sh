# What the rows of hosts share, which are network namespaces of this machine. Sourced after row.sh.

# need_hosts NAME WHAT: ends the script with a row that is not ok where there are no namespaces or no iperf3
need_hosts() {
  if unshare -n true 2>/dev/null && command -v iperf3 >/dev/null; then return; fi
  row "$1" "$2" "measured" "not measured: no network namespaces here, or no iperf3" false
  exit 0
}

# In a subshell that has sourced tests/hosts/namespaces.sh and made the hosts:
# link_rate COUNT [SECONDS]: bytes per second that a link of the hosts 0..COUNT-1 carries each way while all links do so at once: every
# host runs iperf3 to the next one, so that each link is full in both directions. The mean of the links.
link_rate() {
  local count=$1 seconds=${2:-4} host clients=() servers=()
  for ((host = 0; host < count; ++host)); do
    on "$host" timeout $((seconds + 20)) iperf3 -s -1 >/dev/null 2>&1 &
    servers+=($!)
  done
  sleep 0.7
  for ((host = 0; host < count; ++host)); do
    on "$host" timeout $((seconds + 15)) iperf3 -c "$(address $(((host + 1) % count)))" -t "$seconds" -O 1 -J >"$scratch/iperf3.$host" &
    clients+=($!)
  done
  wait "${clients[@]}"
  wait "${servers[@]}"
  for ((host = 0; host < count; ++host)); do jq '.end.sum_received.bits_per_second / 8' "$scratch/iperf3.$host"; done |
    jq -s 'add / length'
}

# crossing COLLECTIVE RANKS: how many times the bytes of a call (of each rank, for all_to_all) the busiest direction of a host's link
# must carry, whatever the algorithm
crossing() {
  jq -n --arg collective "$1" --argjson here "[$2]" '($here | add) as $all | ($here | length) as $hosts |
    if $collective == "sendrecv" then 1
    elif $collective == "all_reduce" then 2 * ($hosts - 1) / $hosts
    elif $collective == "all_to_all" then $here | map(. * (1 - . / $all)) | max
    else [($here[] | 1 - . / $all), ($here[] | . / $all), ($hosts - 1) / $hosts] | max end'
}

# each_host HOSTS RANKS: RANKS on each of so many hosts, with commas
each_host() { jq -nr --argjson hosts "$1" --argjson ranks "$2" '[range($hosts) | $ranks] | join(",")'; }
