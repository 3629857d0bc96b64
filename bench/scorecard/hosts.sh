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

# int8_row NAME MUST: how many times as fast a sum is when its messages are coded, over the same link one after the other
int8_row() {
  local found
  found=$(
    source tests/hosts/namespaces.sh
    make_hosts 2 1 2gbit
    for codec in none int8; do
      on_all "$PWD/$bin/sinew-run" 1,1 "$PWD/$bin/sinew-bench" all_reduce -b $bytes -e $bytes -n 5 -w 1 --codec $codec \
        --json "$scratch/$codec" >&2
    done
    jq -s '{times: (.[0].time_us / .[1].time_us), wrong: (map(.wrong) | add), ways: (map(.algorithm) | join(", int8 "))}' \
      "$scratch/none" "$scratch/int8"
  )
  row "$1" "all_reduce of 64 MiB, 1,1 ranks on hosts joined by 2 Gbit/s: int8 messages, times as fast as f32" ">= $2" \
    "$(jq -r '"\(.times * 100 | round / 100), f32 \(.ways)" + (if .wrong > 0 then ", \(.wrong) wrong" else "" end)' <<<"$found")" \
    "$(jq --argjson must "$2" '.wrong == 0 and .times >= $must' <<<"$found")"
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
int8_row hosts_int8_all_reduce 3
