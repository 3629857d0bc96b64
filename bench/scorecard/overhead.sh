# What the library adds to the bare exchange of two flag lines in an all_reduce of 8 bytes: each part has a budget.
source bench/scorecard/lib/row.sh

"$bin/overhead" --json "$scratch/overhead" >&2
row overhead_parts "8-byte all_reduce over shared memory: plan lookup, arguments and fingerprint, record, Work" \
  "<= 15, 10, 15, 10 ns" "$(jq -r '.parts | map(.ns * 10 | round / 10) | "\(map(tostring) | join(", ")) ns"' "$scratch/overhead")" \
  "$(jq '.parts | all(.ns <= .budget)' "$scratch/overhead")"
row overhead_whole "the whole call, the bare exchange; what is beyond it, of that the parts" "shown" \
  "$(jq -r '[.whole, .bare, .beyond, .sum] | map(round) | "\(.[0]), \(.[1]) ns; \(.[2]), \(.[3]) ns"' "$scratch/overhead")" true
row overhead_threads "what Threads::Multiple adds to an 8-byte all_reduce, uncontended; the same where the caller does not say that it waits at once" \
  "<= 40 ns; <= 1000 ns" "$(jq -r '"\(.threads | round), \(.threads_async | round) ns"' "$scratch/overhead")" \
  "$(jq '.threads <= 40 and .threads_async <= 1000' "$scratch/overhead")"
