# Latencies between hosts, which are network namespaces joined by links of 2 Gbit/s, all from one run of build/release/bin/between_hosts.
source bench/scorecard/lib/row.sh

if ! unshare -n true 2>/dev/null; then
  row hosts_latency "latencies between hosts" "measured" "not measured: no network namespaces here" false
  exit 0
fi
(
  source tests/hosts/namespaces.sh
  make_hosts 2 1 2gbit
  for _ in 1 2 3; do on_all "$PWD/$bin/sinew-run" 2,2 "$PWD/$bin/between_hosts" | sed 's/^\[[0-9]*\] //'; done >"$scratch/lines"
)
found=$(jq -s 'def mid(f): map(f) | sort | .[length / 2 | floor];
  {ways: mid(.all_reduce_us / .one_way_us), us: mid(.all_reduce_us), more: mid(.worst_loaded_barrier_ms - .barrier_ms),
   load: mid(.load_bytes_per_s)}' "$scratch/lines")
row hosts_all_reduce_latency "all_reduce of 8 B, 2 hosts with 2 ranks each, in one-way latencies between their first ranks, median of three runs" "<= 6" \
  "$(jq -r '"\(.ways * 100 | round / 100) (\(.us | round) us)"' <<<"$found")" "$(jq '.ways <= 6' <<<"$found")"
# A load that does not flow is none: at least half of the link.
row hosts_loaded_barrier "the slowest barrier of two hosts while 64 MiB flow between the same ranks over 2 Gbit/s, more than one alone, median of three runs" "<= 60 ms" \
  "$(jq -r '"\(.more * 100 | round / 100) ms beside \(.load / 1e6 | round) MB/s"' <<<"$found")" \
  "$(jq '.more <= 60 and .load >= 125e6' <<<"$found")"
