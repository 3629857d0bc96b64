# The same training under every layout of 1, 2, 3, 4, 6 and 8 ranks over dp, cp and tp, rows cut between layers or not,
# on their way or not, any number of ranks that share heads, ZeRO 0 to 3: the first step's gradients and the losses of
# 20 steps beside those of one process. Three models; a line of the program for each.
source bench/scorecard/lib/row.sh

"$bin/whole_gpt_layouts" --gtest_filter="AllLayouts.*" >"$scratch/out" || true
lines=$(sed -nE 's/^layouts: ([0-9]+) runs, gradient ([^ ]+) \(.*\), loss ([^ ]+) \(.*\): (.*)$/\1 \2 \3 \4/p' "$scratch/out")
read -r models runs gradient loss < <(awk '
  { runs += $1; if ($2 > gradient) gradient = $2; if ($3 > loss) loss = $3 } END { print NR, runs + 0, gradient + 0, loss + 0 }' <<<"$lines")
row gpt_layouts_gradients "gpt, f64, every layout of 1, 2, 3, 4, 6, 8 ranks over dp, cp, tp: largest difference of a gradient of the first step from one process, as part of its parameter's largest" \
  "<= 1e-12" "$gradient ($runs runs of $models models)" "$(jq -n "$models == 3 and $runs > 900 and $gradient <= 1e-12")"
row gpt_layouts "the same: largest relative difference of a loss of 20 steps" \
  "<= 1e-9" "$loss ($runs runs of $models models)" "$(jq -n "$models == 3 and $runs > 900 and $loss <= 1e-9")"
