# Sharded parameters in the stages of pipelines: every schedule under every row and budget beside one rank, and what ranks
# hold beside what was predicted. The test program ends with a line of these figures.
source bench/scorecard/lib/row.sh

passed=true
"$bin/test_sharded_pipelines" >"$scratch/out" 2>&1 || passed=false
read -r runs loss least most < <(sed -nE 's/^sharded pipelines: ([0-9]+) runs, loss ([^ ]+), planned ([^ ]+) to ([^ ]+) of .*$/\1 \2 \3 \4/p' "$scratch/out") || true
runs=${runs:-0} loss=${loss:-1} least=${least:-0} most=${most:-2}
row fsdp_pp "f64, 7 schedules x ddp, zero1, zero2, zero3, hsdp x dp 2 and pp 2, dp 2 and pp 4, dp 3 and pp 2, and smaller budgets: largest relative difference of a loss from one rank" \
  "<= 1e-12" "$loss ($runs runs)" "$(jq -n "$passed and $runs > 200 and $loss <= 1e-12")"
row fsdp_pp_memory "the same: bytes of gathered parameters and whole gradients that a rank holds, as a share of those that the schedule's proof predicts" \
  "0.95 to 1.05" "$least to $most" "$(jq -n "$passed and $least >= 0.95 and $most <= 1.05")"
"$bin/test_job" --gtest_filter='StageSharding.*' >"$scratch/job" 2>&1 || passed=false
row fsdp_pp_job "jobs whose data parallelism follows the schedule, zero 0 to 3: what a rank holds is within 5 % of the predicted memory" \
  "passes" "$passed" "$passed"
