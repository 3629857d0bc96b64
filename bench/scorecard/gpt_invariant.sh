# Layout-invariant training: every layout of 1, 2, 4 and 8 ranks over dp, cp, tp and pp that the rules admit, every
# schedule, ZeRO 0 to 3, copies of shards, 1, 2 and 4 passes: losses, norms and all weights beside those of one process,
# bit for bit. And what that costs: the time of a step beside fast sums, one rank and two.
source bench/scorecard/lib/row.sh

"$bin/whole_gpt_invariant" >"$scratch/out" || true
read -r lines runs differing < <(sed -nE 's/^invariant: ([0-9]+) runs, ([0-9]+) differ .*$/\1 \2/p' "$scratch/out" | awk '
  { runs += $1; differing += $2 } END { print NR, runs + 0, differing + 0 }')
row gpt_invariant "gpt, layout-invariant, f32, f64 and bf16, every layout of 1, 2, 4, 8 ranks, schedule, ZeRO and number of passes: runs whose losses or weights have other bits than one process" \
  "0" "$differing ($runs runs of 3 models)" "$(jq -n "$lines == 12 and $runs > 2000 and $differing == 0")"

# step RANKS LEVEL ARGUMENT..: the median time of a step, in ms
step() {
  local ranks=$1 level=$2
  shift 2
  sinew_run -n "$ranks" "$bin/gpt" --steps 12 --determinism "$level" --metrics "$scratch/metrics" "$@" >/dev/null
  jq -s '[.[2:][].seconds] | sort | .[length / 2 | floor] * 10000 | round / 10' "$scratch/metrics"
}
figures=()
for layout in "1" "2" "2 --tp 2" "2 --cp 2" "2 --zero 3"; do
  read -ra arguments <<<"$layout"
  ranks=${arguments[0]}
  fast=$(step "$ranks" fast "${arguments[@]:1}")
  invariant=$(step "$ranks" layout_invariant "${arguments[@]:1}")
  figures+=("-n $layout: $fast and $invariant ms, $(jq -n "$invariant / $fast * 100 | round / 100")")
done
row gpt_invariant_cost "a step of gpt, fast and layout-invariant" \
  "measured" "$(printf '%s; ' "${figures[@]}" | sed 's/; $//')" true
