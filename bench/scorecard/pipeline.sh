# Pipelines: idle shares of two ranks beside the simulator's, every schedule proved, every pipeline of the example beside
# one process.
source bench/scorecard/lib/row.sh

"$bin/sinew-run" -n 2 "$bin/pipeline_idle" --unit-us 30000 --bytes 4096 --steps 5 | sed 's/^\[[0-9]*\] //' >"$scratch/idle"
worst=$(jq -s '[.[] | (.measured / .simulated - 1) | fabs] | max' "$scratch/idle")
each=$(jq -rs '[.[] | "\(.schedule) \(.measured * 1000 | round / 10) of \(.simulated * 1000 | round / 10) %"] | join(", ")' "$scratch/idle")
row pipeline_idle "2 ranks, stages that compute: largest relative difference of a measured idle share from the simulated one" \
  "<= 0.1" "$worst ($each)" "$(jq -n "$worst <= 0.1")"

begin=$(date +%s)
passed=true
"$bin/test_pipeline" --gtest_filter='EverySchedule*:Generators*:Interleaved*:Mutants*:Prove*:Simulate*' >"$scratch/out" 2>&1 || passed=false
took=$(($(date +%s) - begin))
row pipeline_proofs "every schedule of p 1 to 16, m 1 to 64, v 1 to 4 proved, published formulas exact, mutations told: seconds" \
  "passes, <= 60" "$passed, $took" "$(jq -n "$passed and $took <= 60")"

"$bin/whole_gpt_layouts" --gtest_filter='AllPipelines.*' >"$scratch/out" || true
read -r models runs gradient loss < <(sed -nE 's/^layouts: ([0-9]+) runs, gradient ([^ ]+) \(.*\), loss ([^ ]+) \(.*\): .*$/\1 \2 \3/p' "$scratch/out" | awk '
  { runs += $1; if ($2 > gradient) gradient = $2; if ($3 > loss) loss = $3 } END { print NR, runs + 0, gradient + 0, loss + 0 }')
row gpt_pipelines_gradients "gpt, f64, every pipeline of up to 8 ranks beside dp, cp, tp, ZeRO 0 to 3: largest difference of a gradient of the first step from one process" \
  "<= 1e-12" "$gradient ($runs runs of $models models)" "$(jq -n "$models == 2 and $runs > 300 and $gradient <= 1e-12")"
row gpt_pipelines "the same: largest relative difference of a loss of 20 steps" \
  "<= 1e-9" "$loss ($runs runs of $models models)" "$(jq -n "$models == 2 and $runs > 300 and $loss <= 1e-9")"
