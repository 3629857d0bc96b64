# What the default model learns in 300 steps of one process, and what 16 bits cost it.
source bench/scorecard/lib/row.sh

# train FILE OPTIONS..
train() {
  local file=$1
  shift
  "$bin/gpt" "$@" --metrics "$file" >/dev/null
}
# mean FILE FIRST LAST: of the losses of these steps
mean() { jq -s "[.[$2:$3][].loss] | add / length" "$1"; }

begin=$SECONDS
train "$scratch/f32" --steps 300
took=$((SECONDS - begin))
first=$(jq -s '.[0].loss' "$scratch/f32")
last=$(mean "$scratch/f32" 290 300)
row gpt_loss "gpt, 300 steps of one process: loss of the first step, mean of the last ten; seconds" "< 3.2 in < 300 s" \
  "$first to $last in $took s" "$(jq -n "$first > 5 and $last < 3.2 and $took < 300")"

train "$scratch/few" --steps 200
train "$scratch/bf16" --steps 200 --dtype bf16 --micro-batches 8
train "$scratch/naive" --steps 200 --dtype bf16 --gradient-dtype bf16 --output-dtype bf16 --micro-batches 8
f32=$(mean "$scratch/few" 190 200)
worst=$(jq -n --slurpfile a "$scratch/few" --slurpfile b "$scratch/bf16" '
  if ($b | length) != 200 then 1 else [range(200) | ($b[.].loss / $a[.].loss - 1) | fabs] | max end')
row gpt_bf16 "gpt, 200 steps with bf16 parameters, gradients added up in f32: largest relative difference of a loss from f32 (last ten: f32, so, and with gradients added up in bf16)" \
  "<= 0.02" "$worst ($f32, $(mean "$scratch/bf16" 190 200), $(mean "$scratch/naive" 190 200))" "$(jq -n "$worst <= 0.02")"
