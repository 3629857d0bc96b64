# ZeRO++ beside zero3: what it sends between hosts, counted with all scales, and what a small transformer learns with it.
source bench/scorecard/lib/row.sh

for dtype in bf16 f32; do
  most=$([ $dtype = bf16 ] && echo 0.27 || echo 0.14)
  "$bin/zeropp" --text docs/design.md --dtype $dtype --steps 200 >"$scratch/$dtype"
  share=$(jq .between_hosts "$scratch/$dtype")
  row "zeropp_bytes_$dtype" "a transformer of 14 units on two hosts of two ranks, $dtype: bytes between hosts with int8 weights, near copies and int4 gradients, as a share of zero3's" \
    "<= $most" "$share" "$(jq -n "$share <= $most")"
  read -r first plain loss < <(jq -r '"\(.first_loss) \(.plain_loss) \(.loss)"' "$scratch/$dtype")
  off=$(jq -n "($loss / $plain - 1) | fabs")
  row "zeropp_loss_$dtype" "the same, 200 steps: relative difference of the mean loss of the last ten from zero3's (first loss, zero3, ZeRO++)" \
    "<= 0.01" "$off ($first, $plain, $loss)" "$(jq -n "$off <= 0.01 and $plain < 0.7 * $first")"
done
