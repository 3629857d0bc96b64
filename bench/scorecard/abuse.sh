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

passed=true
"$bin/test_control" --gtest_filter='*ShowsBothCallsOnAllRanks_ForEveryPair*' >"$scratch/out" 2>&1 || passed=false
row abuse_mismatches "306 pairs of different calls (kind, dtype, count, root, operator) on each of inproc, shm, tcp: told on all ranks, both calls named, and the parent goes on" \
  "3 of 3" "$(grep -c '^\[       OK' "$scratch/out" || true) of 3 pass" "$(jq -n "$passed and $(grep -c '^\[       OK' "$scratch/out" || true) == 3")"
