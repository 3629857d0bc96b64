# What records and fingerprints, and, where they are asked for, times and the log of calls add to an all_reduce of 8 bytes.
source bench/scorecard/lib/row.sh

"$bin/records" --json "$scratch/records" >&2
row records "records and fingerprints: the shared-memory offload's 8-byte all_reduce with them and without, in turns in one run" \
  "<= 25 ns" "$(jq -r '"\(.adds * 10 | round / 10) ns: \(.on | round) - \(.off | round)"' "$scratch/records")" \
  "$(jq '.adds <= 25' "$scratch/records")"
row records_timed "a whole 8-byte all_reduce; what SINEW_STATS and SINEW_TRACE add, in turns in one run" "shown" \
  "$(jq -r '[.whole, .stats, .trace] | map(round) | "\(.[0]) ns; \(.[1]), \(.[2]) ns"' "$scratch/records")" true
