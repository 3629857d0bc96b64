# The example with experts under every layout of 1, 2, 4, 6 and 8 ranks over pp, dp, cp, tp, ep, etp, schedules and ZeRO 0
# to 3, ways to dispatch in turn: beside one process. Two models; a line of the program for each.
source bench/scorecard/lib/row.sh

"$bin/whole_gpt_layouts" --gtest_filter="AllExperts.*" >"$scratch/out" || true
read -r models runs gradient loss routed < <(sed -nE 's/^layouts: ([0-9]+) runs, gradient ([^ ]+) \(.*\), loss ([^ ]+) \(.*\), routed ([0-9]+): .*$/\1 \2 \3 \4/p' "$scratch/out" | awk '
  { runs += $1; if ($2 > gradient) gradient = $2; if ($3 > loss) loss = $3; routed += $4 }
  END { print NR, runs + 0, gradient + 0, loss + 0, routed + 0 }')
row gpt_experts_gradients "gpt with experts, f64, every layout of 1, 2, 4, 6, 8 ranks over all axes, schedules, ZeRO: largest difference of a gradient of the first step from one process" \
  "<= 1e-12" "$gradient ($runs runs of $models models)" "$(jq -n "$models == 2 and $runs > 800 and $gradient <= 1e-12")"
row gpt_experts "the same: largest relative difference of a loss of 20 steps" \
  "<= 1e-9" "$loss ($runs runs of $models models)" "$(jq -n "$models == 2 and $runs > 800 and $loss <= 1e-9")"
row gpt_experts_routed "the same: steps in which other tokens were dropped, or loads or balance losses were others" \
  "0" "$routed" "$(jq -n "$models == 2 and $runs > 800 and $routed == 0")"

passed=true
"$bin/test_expert" --gtest_filter='Dispatch.SendsWhatGoesToOtherRanks:Dispatch.CrossesToAHostOnce' >"$scratch/out" 2>&1 || passed=false
row expert_bytes "8 experts on 4 ranks: bytes sent are assignments to other ranks * width * element size; hierarchical: a token crosses to a host once" \
  "passes" "$passed" "$passed"
