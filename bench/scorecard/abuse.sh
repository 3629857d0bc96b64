# Ranks killed at random moments, over each transport; calls that differ between ranks.
source bench/scorecard/lib/row.sh

transports=shm,tcp
for transport in ucx ofi; do
  if [ -e "build/release/lib/sinew-modules/sinew_$transport.so" ]; then transports+=,$transport; fi
done
"$bin/abuse" kills --runs 200 --transports "$transports" >"$scratch/kills" 2>"$scratch/err" || cat "$scratch/kills" "$scratch/err" >&2
line=$(tail -n 1 "$scratch/kills")
row abuse_kills "200 ranks of jobs of 2 to 6 killed at start, idle, in a collective, in split, in shrink, in a training step, over $transports: faults (a survivor that names another rank, does not shrink, or has a wrong sum in the next 100), hangs, jobs that left sockets, segments or processes; the last survivor's return" \
  "0, 0, 0; <= 2 s" "$(jq -r '"\(.faults), \(.hangs), \(.leaks); \(.longest_s * 1000 | round / 1000) s"' <<<"$line")" \
  "$(jq '.runs == 200 and .ok' <<<"$line")"

"$bin/abuse" kills --alone --runs 48 --transports shm,tcp >"$scratch/alone" 2>"$scratch/err" || cat "$scratch/alone" "$scratch/err" >&2
line=$(tail -n 1 "$scratch/alone")
row abuse_alone "48 such kills in jobs without a launcher, whose rank 0 serves the store and is killed like the others" \
  "0, 0, 0; <= 2 s" "$(jq -r '"\(.faults), \(.hangs), \(.leaks); \(.longest_s * 1000 | round / 1000) s"' <<<"$line")" \
  "$(jq '.runs == 48 and .ok' <<<"$line")"

"$bin/abuse" hardships --transports "$transports" >"$scratch/hardships" 2>"$scratch/err" || cat "$scratch/hardships" "$scratch/err" >&2
line=$(tail -n 1 "$scratch/hardships")
row abuse_hardships "jobs of 3 with a rank that is stopped, interrupted 1000 times a second, out of descriptors, out of memory, forking, thrown through, with a time of day that jumps, over $transports: sums wrong, hangs, ranks that do not name the culprit" \
  "0" "$(jq -r '"\(.faults) of \(.runs) jobs"' <<<"$line")" "$(jq '.runs >= 14 and .ok' <<<"$line")"

passed=true
ways=$(($(tr -cd , <<<"$transports" | wc -c) + 2)) # and inproc
"$bin/test_control" --gtest_filter='*ShowsBothCallsOnAllRanks_ForEveryPair*:*ShowsThatARankMadeNoCall*' >"$scratch/out" 2>&1 || passed=false
tests=$(grep -c '^\[       OK' "$scratch/out" || true)
row abuse_mismatches "306 pairs of different calls (kind, dtype, count, root, operator, codec) and 18 missing ones on each of inproc, $transports: told on all ranks, both calls named, and the parent goes on" \
  "$((2 * ways)) of $((2 * ways))" "$tests of $((2 * ways)) pass" "$(jq -n "$passed and $tests == $((2 * ways))")"
