# The optimizer of exchanges: redundant exchanges planted in graphs, and the exchanges of a transformer layer.
source bench/scorecard/lib/row.sh

passed=true
"$bin/test_step_optimizer" --gtest_filter='Planted*' >"$scratch/planted" 2>&1 || passed=false
read -r graphs planted < <(sed -nE 's/^planted: ([0-9]+) graphs, ([0-9]+) exchanges$/\1 \2/p' "$scratch/planted" | awk '{ g += $1; p += $2 } END { print g + 0, p + 0 }')
row exchanges_planted "redundant exchanges planted at random in graphs of layers and of data parallelism: all removed, none that is needed, results as before" \
  "all, of 20 graphs or more" "$passed, $planted exchanges in $graphs graphs" "$(jq -n "$passed and $graphs >= 20 and $planted > 1000")"

passed=true
"$bin/test_step_optimizer" --gtest_filter='*MegatronCounts*' >"$scratch/counts" 2>&1 || passed=false
counts=$(sed -n 's/^megatron counts: //p' "$scratch/counts" | paste -sd';')
row exchanges_megatron "a transformer layer under tp and sp from one redistribution for each operation: all-gathers + reduce-scatters, and gathers of saved inputs" \
  "2 + 2 each way and 2 again, for each layer" "$counts" "$(jq -n "$passed and $(grep -c '^megatron counts' "$scratch/counts") == 2")"
