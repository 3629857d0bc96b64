# The planner: how long a search takes on one core, and whether the formulas of the literature come out.
source bench/scorecard/lib/row.sh

begin=$(date +%s%N)
taskset -c "$(sed -n 's/^Cpus_allowed_list:\t\([0-9]*\).*/\1/p' /proc/self/status)" \
  "$bin/sinew-sim" train --model gpt3-175b --cluster dgx-h100x128 --network rail_optimised --json >"$scratch/plan"
seconds=$(jq -n "($(date +%s%N) - $begin) / 1e7 | round / 100")
row planner_search "sinew-sim train: every layout of 175e9 parameters on 1,024 GPUs, one core: seconds" "<= 60 s" \
  "$seconds s, $(jq -r '"\(.judged) layouts, \(.fitting) of them fit"' "$scratch/plan")" \
  "$(jq --argjson seconds "$seconds" '$seconds <= 60 and (.layouts | length == 10) and .ranks == 1024' "$scratch/plan")"

passed=true
"$bin/test_planner" --gtest_filter='Formulas*:PipelineCosts*:ModelShape*' >"$scratch/out" 2>&1 || passed=false
row planner_formulas "parameters, ZeRO, activations, operations and bubbles as published: tests that hold the planner to them" "all pass" \
  "$(grep -c '^\[       OK' "$scratch/out") pass" $passed
