# What a communicator keeps for its calls when every collective has run; sinew-info plan shows what it begins with.
source bench/scorecard/lib/row.sh

for ranks in 8 1; do
  most=$((ranks == 1 ? 64 << 10 : 4 << 20))
  sinew_run -n "$ranks" "$bin/communicator_memory" >"$scratch/memory"
  bytes=$(jq -s 'map(.memory_bytes) | max' "$scratch/memory")
  row "memory_$ranks" "buffers of a communicator of $ranks when every collective has run, the largest of its ranks" \
    "< $((most >> 10)) KiB" "$((bytes >> 10)) KiB" "$(jq -n "$(jq -s length "$scratch/memory") == $ranks and $bytes < $most")"
done
