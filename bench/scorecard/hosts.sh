# Collectives between hosts, which are network namespaces joined by links of 2 Gbit/s: the share of the link that is the collective's own
# bytes. The link's rate is what iperf3 moves on the same hosts just before.
source bench/scorecard/lib/row.sh

bytes=$((64 << 20))

# link_rate: bytes per second, one way; the hosts are there
link_rate() {
  local server
  on 1 timeout 30 iperf3 -s -1 >/dev/null 2>&1 &
  server=$!
  sleep 0.7
  on 0 timeout 20 iperf3 -c "$(address 1)" -t 3 -J | jq '.end.sum_received.bits_per_second / 8'
  wait $server
}

# share COLLECTIVE RANKS CROSSING: what part of the link's rate the bytes that must leave a host (CROSSING times 64 MiB) move at
share() {
  local collective=$1 ranks=$2 crossing=$3 hosts
  IFS=, read -r -a hosts <<<"$ranks"
  (
    source tests/hosts/namespaces.sh
    make_hosts ${#hosts[@]} 1 2gbit
    rate=$(link_rate)
    on_all "$PWD/$bin/sinew-run" "$ranks" "$PWD/$bin/sinew-bench" "$collective" -b $bytes -e $bytes -n 5 -w 1 --json "$scratch/line" >&2
    jq -s --argjson rate "$rate" --argjson bytes "$(jq -n "$crossing * $bytes")" \
      '.[0] | {share: ($bytes / (.time_us * 1e-6) / $rate), wrong, algorithm}' "$scratch/line"
  )
}

# hosts_row NAME COLLECTIVE RANKS CROSSING MUST
hosts_row() {
  local found
  found=$(share "$2" "$3" "$4")
  row "$1" "$2 of 64 MiB, $3 ranks on hosts joined by 2 Gbit/s: what must cross, of the rate of iperf3" ">= $5 %" \
    "$(jq -r '"\(.share * 1000 | round / 10) %, \(.algorithm)" + (if .wrong > 0 then ", \(.wrong) wrong" else "" end)' <<<"$found")" \
    "$(jq --argjson must "$5" '.wrong == 0 and .share * 100 >= $must' <<<"$found")"
}

if ! unshare -n true 2>/dev/null || ! command -v iperf3 >/dev/null; then
  row hosts "collectives between hosts" "measured" "not measured: no network namespaces here, or no iperf3" false
  exit 0
fi
hosts_row hosts_all_reduce_1_1 all_reduce 1,1 1 92
hosts_row hosts_all_reduce_2_2 all_reduce 2,2 1 92
hosts_row hosts_all_gather_2_2 all_gather 2,2 0.5 88
hosts_row hosts_reduce_scatter_2_2 reduce_scatter 2,2 0.5 88
hosts_row hosts_all_to_all_2_2 all_to_all 2,2 1 88
hosts_row hosts_all_reduce_1_2_3 all_reduce 1,2,3 4/3 85
