# The same training under every factorisation of 1, 2, 3, 4, 6 and 8 ranks into dp and tp, rows cut between layers or
# not, ZeRO 0 to 3: losses of 20 steps, and the norm of the first step's gradients, beside those of one process.
source bench/scorecard/lib/row.sh

small="--dtype f64 --layers 2 --heads 8 --width 40 --context 9 --batch 24 --steps 20 --warmup 5"
# losses FILE RANKS OPTIONS..: of one run
losses() {
  local file=$1 ranks=$2
  shift 2
  # shellcheck disable=SC2086
  "$bin/sinew-run" -n "$ranks" "$bin/gpt" $small "$@" --metrics "$file" >/dev/null
}
losses "$scratch/alone" 1
runs=0 loss=0 norm=0
for ranks in 1 2 3 4 6 8; do
  for tp in 1 2 3 4 6 8; do
    [ $((ranks % tp)) = 0 ] || continue
    for zero in 0 1 2 3; do
      for rows in "" --sp; do
        [ "$tp$rows" != 1--sp ] || continue
        # shellcheck disable=SC2086
        losses "$scratch/together" "$ranks" --tp "$tp" --zero "$zero" $rows
        read -r loss norm <<<"$(jq -rn --argjson loss "$loss" --argjson norm "$norm" --slurpfile a "$scratch/alone" \
          --slurpfile b "$scratch/together" '
          if ($a | length) != ($b | length) then "1 1" else
          ([range($a | length) | ($b[.].loss / $a[.].loss - 1) | fabs] + [$loss] | max | tostring) + " " +
          ([($b[0].norm / $a[0].norm - 1 | fabs), $norm] | max | tostring) end')"
        runs=$((runs + 1))
      done
    done
  done
done
row gpt_layouts "gpt, f64, 20 steps: largest relative difference of a loss from one process, every dp x tp of 1, 2, 3, 4, 6, 8 ranks, rows cut or not, zero 0 to 3" \
  "<= 1e-9" "$loss ($runs runs)" "$(jq -n "$loss <= 1e-9 and $runs == 104")"
row gpt_layouts_gradients "the same: norm of the first step's gradients" "<= 1e-12" "$norm ($runs runs)" \
  "$(jq -n "$norm <= 1e-12 and $runs == 104")"
