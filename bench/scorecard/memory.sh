# What a communicator keeps for its calls, as sinew-info shows it.
source bench/scorecard/lib/row.sh

for ranks in 8 1; do
  most=$((ranks == 1 ? 64 << 10 : 4 << 20))
  bytes=$("$bin/sinew-info" --json plan all_reduce 64MiB -n "$ranks" | jq .memory_bytes)
  row "memory_$ranks" "buffers of a communicator of $ranks, per rank" "< $((most >> 10)) KiB" "$((bytes >> 10)) KiB" \
    "$(jq -n "$bytes < $most")"
done
