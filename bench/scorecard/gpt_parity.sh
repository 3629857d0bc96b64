# The same training under every row, on 1 to 8 ranks: losses of 50 steps beside those of one process.
source bench/scorecard/lib/row.sh

small="--layers 2 --heads 2 --width 24 --context 8 --batch 840 --steps 50 --warmup 5" # 840: whatever the ranks
# losses FILE RANKS OPTIONS..: of one run
losses() {
  local file=$1 ranks=$2
  shift 2
  # shellcheck disable=SC2086
  "$bin/sinew-run" -n "$ranks" "$bin/gpt" $small "$@" --metrics "$file" >/dev/null
}
# worst_of DTYPE: "worst runs": the largest relative difference of a loss
worst_of() {
  local dtype=$1 ranks row worst=0 runs=0 options
  losses "$scratch/alone" 1 --dtype "$dtype"
  for ranks in 1 2 3 4 5 6 7 8; do
    for row in zero0 zero1 zero2 zero3 hsdp; do
      options="--zero ${row#zero}"
      if [ "$row" = hsdp ]; then
        [ "$ranks" = 4 ] || continue
        options="--zero 3 --replicas 2"
      fi
      # shellcheck disable=SC2086
      losses "$scratch/together" "$ranks" --dtype "$dtype" $options
      worst=$(jq -n --argjson worst "$worst" --slurpfile a "$scratch/alone" --slurpfile b "$scratch/together" '
        if ($a | length) != ($b | length) then 1 else
        [range($a | length) | ($b[.].loss / $a[.].loss - 1) | fabs] + [$worst] | max end')
      runs=$((runs + 1))
    done
  done
  echo "$worst $runs"
}
read -r worst runs <<<"$(worst_of f64)"
row gpt_parity_f64 "gpt, f64, 50 steps: largest relative difference of a loss from one process, ddp, zero1 to 3 on 1 to 8 ranks, hsdp on 2 x 2" \
  "<= 1e-9" "$worst ($runs runs)" "$(jq -n "$worst <= 1e-9 and $runs == 33")"
read -r worst runs <<<"$(worst_of f32)"
row gpt_parity_f32 "the same in f32" "<= 1e-3" "$worst ($runs runs)" "$(jq -n "$worst <= 1e-3 and $runs == 33")"
