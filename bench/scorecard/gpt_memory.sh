# What a rank holds at most beside what was predicted before the first step, and the table for a model that is not here.
source bench/scorecard/lib/row.sh

worst=0 runs=0
for ranks in 1 2 4; do
  for options in "--zero 0" "--zero 1" "--zero 2" "--zero 3" "--zero 3 --replicas $ranks" "--zero 3 --reshard backward"; do
    for precision in "--dtype f32" "--dtype bf16 --recompute selective" "--dtype f64 --recompute full --micro-batches 2"; do
      # shellcheck disable=SC2086
      percent=$("$bin/sinew-run" -n "$ranks" "$bin/gpt" --steps 3 $options $precision |
        sed -n 's/.*held at most, \([0-9.]*\) % of.*/\1/p')
      worst=$(jq -n "[$worst, (${percent:-0} - 100 | fabs)] | max")
      runs=$((runs + 1))
    done
  done
done
row gpt_memory "gpt: what rank 0 holds at most (counted as it is taken) beside what was predicted: largest difference, $runs runs of ddp, zero1 to 3, hsdp on 1, 2, 4 ranks" \
  "<= 2 %" "$worst %" "$(jq -n "$worst <= 2")"

table=$("$bin/gpt" --plan --plan-ranks 64 --layers 37 --heads 32 --width 4096 --context 2048 --batch 64 --dtype bf16 |
  awk '/^(ddp|zero[123]|hsdp) / { printf "%s%s %s", sep, $1, $NF; sep = ", " }')
row gpt_plan "a GPT of 7.46e9 parameters in bf16 on 64 ranks: GiB per rank under each row, activations apart" "a table" "$table" \
  "$([ "$(grep -o , <<<"$table" | wc -l)" = 4 ] && echo true || echo false)"
