# A training whose ranks are killed at random and come back, with a spare and without: does it go on, and with which losses?
source bench/scorecard/lib/row.sh

model=(--layers 2 --width 32 --heads 2 --context 16 --batch 12 --dtype f64)

# changes NAME WHAT CHANGES OPTIONS.. -- MODEL..: two rows
changes() {
  local name=$1 what=$2 count=$3
  shift 3
  "$bin/changes" --gpt "$bin/gpt" --sinew-run "$bin/sinew-run" --changes "$count" --steps 100000 "$@" "${model[@]}" >"$scratch/line" || true
  row "changes_$name" "$what: $count random changes, each a killed process or two, which come back: hangs and failures, largest difference of a loss to an undisturbed run" \
    "0, <= 1e-10" "$(jq -r '"\(.hangs + .failures) in \(.changes) changes with \(.kills) kills, \(.worst)"' "$scratch/line")" \
    "$(jq --argjson count "$count" '.hangs == 0 and .failures == 0 and .changes == $count and .worst <= 1e-10 and .steps > 0' "$scratch/line")"
  row "changes_${name}_pause" "the same: the longest time from a change to the next step, processes that share $(nproc) cores" "<= 5 s" \
    "$(jq -r '"\(.longest_pause_s) s"' "$scratch/line")" "$(jq '.longest_pause_s <= 5' "$scratch/line")"
}

changes dp "gpt on 4 ranks, dp" 200 --seed 1 --ranks 4 --min-ranks 2 --
changes tp_pp "gpt on 8 ranks, dp 2 x tp 2 x pp 2" 200 --seed 2 --ranks 8 --min-ranks 4 -- --tp 2 --pp 2 --micro-batches 2
changes spare "gpt on 4 ranks and a spare, tp 2" 200 --seed 3 --ranks 4 --min-ranks 2 --spares 1 -- --tp 2
