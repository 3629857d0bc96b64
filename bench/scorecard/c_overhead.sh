# What the C API adds to an 8-byte all_reduce of the C++ API.
source bench/scorecard/lib/row.sh

"$bin/c_overhead" --json "$scratch/c_overhead" >&2
row c_overhead "what the C API adds to an 8-byte all_reduce over shared memory; the same with the caller's line" \
  "<= 20 ns; shown" "$(jq -r '"\(.c * 10 | round / 10); \(.with_site * 10 | round / 10) ns"' "$scratch/c_overhead")" \
  "$(jq '.c <= .budget' "$scratch/c_overhead")"
