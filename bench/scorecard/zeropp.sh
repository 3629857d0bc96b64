# gpt with ZeRO++ (int8 weights, near copies, int4 gradients) beside gpt with zero3, on two hosts of two ranks: what it sends between
# hosts, counted with all scales, and what it learns from several initial values. Encoded sums do not depend on the transport, so the
# processes that learn share one host, and --near 2 says which of them are near. zero3 gathers the last unit and the one outside blocks
# once in a step and all others twice. So a model of 12 blocks, which costs as much as the default model of 4 wider ones.
source bench/scorecard/lib/row.sh

model="--data docs/design.md --layers 12 --width 64"
zeropp="--weights int8 --int4 --near 2"
# train FILE OPTIONS..: prints the loss of the first step, and the mean of the last ten
train() {
  local file=$1
  shift
  # shellcheck disable=SC2086
  "$bin/sinew-run" -n 4 "$bin/gpt" $model --zero 3 --steps 200 "$@" --metrics "$file" >/dev/null
  jq -rs '"\(.[0].loss) \([.[190:200][].loss] | add / 10)"' "$file"
}

for dtype in bf16 f32; do
  types="--dtype $dtype --gradient-dtype $dtype"
  most=$([ $dtype = bf16 ] && echo 0.27 || echo 0.14)
  # shellcheck disable=SC2086
  "$bin/zeropp" $model $types >"$scratch/bytes"
  share=$(jq .share "$scratch/bytes")
  row "zeropp_bytes_$dtype" "gpt of 12 blocks on two hosts of two ranks, $dtype: bytes between hosts with int8 weights, near copies and int4 gradients, as a share of zero3's (bytes of a step)" \
    "<= $most" "$share ($(jq -r '"\(.zeropp_bytes) of \(.zero3_bytes)"' "$scratch/bytes"))" "$(jq -n "$share <= $most")"
  for seed in 1 2 3; do
    # shellcheck disable=SC2086
    echo "$(train "$scratch/plain" --seed $seed $types) $(train "$scratch/small" --seed $seed $types $zeropp)"
  done | jq -R 'split(" ") | map(tonumber) | {first: .[0], plain: .[1], loss: .[3], off: (.[3] / .[1] - 1)}' >"$scratch/$dtype"
  off=$(jq -s 'map(.off | fabs) | add / length * 1e5 | round / 1e5' "$scratch/$dtype")
  each=$(jq -rs 'map("\(.off * 1e5 | round / 1e5) from \(.plain * 1e4 | round / 1e4)") | join(", ")' "$scratch/$dtype")
  row "zeropp_loss_$dtype" "the same, 200 steps from each of 3 seeds: relative difference of the mean loss of the last ten steps from that of zero3 with the same seed, mean of its magnitudes (of each seed, and the loss of zero3)" \
    "<= 0.01" "$off ($each)" "$(jq -s "length == 3 and $off <= 0.01 and all(.[]; .plain < 0.7 * .first)" "$scratch/$dtype")"
done
