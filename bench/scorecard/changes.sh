# A training whose processes are killed at random and come back, on one host and on several, with a spare and without: does it go on, with
# which losses, is each dead process named, and how long do the others wait?
source bench/scorecard/lib/row.sh

model=(--layers 2 --width 32 --heads 2 --context 16 --batch 12 --dtype f64)
: >"$scratch/all"

# changes OPTIONS.. -- MODEL..: leaves the line of the program `changes` in $scratch/line
changes() {
  "$bin/changes" --gpt "$bin/gpt" --sinew-run "$bin/sinew-run" --steps 100000 "$@" "${model[@]}" >"$scratch/line" || true
}

# changes_on RANKS,.. OPTIONS.. -- MODEL..: the same on several hosts, with so many ranks each
changes_on() {
  local ranks=$1
  shift
  tests/hosts/changes.sh "$PWD/$bin/changes" "$PWD/$bin/sinew-run" "$PWD/$bin/gpt" "$ranks" --steps 100000 "$@" "${model[@]}" \
    >"$scratch/line" || true
}

# changes_rows NAME WHAT COUNT COMMAND..: two rows
changes_rows() {
  local name=$1 what=$2 count=$3
  shift 3
  "$@"
  cat "$scratch/line" >>"$scratch/all"
  row "changes_$name" "$what: $count random changes, each a killed process or several, which come back: hangs and failures, largest difference of a loss to an undisturbed run" \
    "0, <= 1e-10" \
    "$(jq -r '"\(.hangs + .failures) in \(.changes) changes (\(.kinds | to_entries | map("\(.value) \(.key)") | join(", ")); \(.joins) joins, \(.replacements) replacements) in \(.jobs) job with \(.kills) kills, \(.worst)"' "$scratch/line")" \
    "$(jq --argjson count "$count" '.hangs == 0 and .failures == 0 and .changes >= $count and .worst <= 1e-10 and .steps > 0' "$scratch/line")"
  row "changes_${name}_pause" "the same: the longest time without a step, processes that share $(nproc) cores" "<= 5 s" \
    "$(jq -r '"\(.longest_pause_s) s"' "$scratch/line")" "$(jq '.longest_pause_s <= 5' "$scratch/line")"
}

changes_rows dp "gpt on 4 ranks, dp" 200 changes --changes 200 --seed 1 --ranks 4 --min-ranks 2 --
changes_rows tp_pp "gpt on 8 ranks, dp 2 x tp 2 x pp 2" 200 \
  changes --changes 200 --save-every 10 --seed 2 --ranks 8 --min-ranks 4 -- --tp 2 --pp 2 --micro-batches 2
changes_rows spare "gpt on 4 ranks and a spare, tp 2" 200 changes --changes 200 --save-every 10 --seed 3 --ranks 4 --min-ranks 2 --spares 1 -- --tp 2
changes_rows experts "gpt on 4 ranks, 4 experts in each block, ep 2, ZeRO 1 with copies on buddies" 200 \
  changes --changes 200 --save-every 10 --seed 4 --ranks 4 --min-ranks 2 -- --experts 4 --experts-every 1 --ep 2 --zero 1 --buddy-copies 1
changes_rows 600 "gpt on 8 ranks, dp 2 x tp 2 x pp 2, in one job" 600 \
  changes --changes 600 --one-job --save-every 10 --seed 5 --ranks 8 --min-ranks 4 -- --tp 2 --pp 2 --micro-batches 2
for zero in 1 3; do
  changes --changes 50 --seed 6 --ranks 4 --min-ranks 2 --kinds "kill one" --apart --most-lost 2 -- --zero $zero --buddy-copies 1
  cat "$scratch/line" >>"$scratch/all"
  row "changes_buddies_zero$zero" "gpt on 4 ranks, ZeRO $zero, copies on buddies and no checkpoint: 50 kills of one rank: hangs and failures, largest difference of a loss, most steps made again" \
    "0, <= 1e-10, <= 2" "$(jq -r '"\(.hangs + .failures), \(.worst), \(.most_lost)"' "$scratch/line")" \
    "$(jq '.hangs == 0 and .failures == 0 and .changes == 50 and .worst <= 1e-10 and .most_lost <= 2 and .steps > 0' "$scratch/line")"
done
if unshare -n true 2>/dev/null; then
  changes_rows two_hosts "gpt on two hosts of 2 ranks, ZeRO 1 with copies on buddies" 200 \
    changes_on 2,2 --changes 200 --save-every 10 --seed 7 --min-ranks 2 -- --zero 1 --buddy-copies 1
  changes_rows three_hosts "gpt on three hosts of 2 ranks, tp 2" 200 changes_on 2,2,2 --changes 200 --save-every 10 --seed 8 --min-ranks 2 -- --tp 2
fi

row changes_names "all kills above: hangs, killed processes that sinew-run did not report, living ones that ranks called dead, errors of ranks without a rank" \
  "0, 0, 0, 0 in >= 1000 kills" \
  "$(jq -rs '"\(map(.hangs) | add), \(map(.unreported) | add), \(map(.misnamed) | add), \(map(.nameless) | add) in \(map(.kills) | add) kills"' "$scratch/all")" \
  "$(jq -s '(map(.hangs + .unreported + .misnamed + .nameless) | add) == 0 and (map(.kills) | add) >= 1000' "$scratch/all")"

model=(--layers 4 --width 128 --heads 4 --context 64 --batch 12 --dtype f64)
changes --minutes 30 --every-s 60 --one-job --compared 1000 --save-every 20 --seed 9 --ranks 4 --min-ranks 2 --spares 1 --
row changes_minute "gpt on 4 ranks and a spare, dp, 30 minutes with a change each minute: time in steps that counted, the longest join and the longest replacement by a spare, without the transfer" \
  ">= 80 %, <= 2 s, <= 5 s" \
  "$(jq -r '"\(.productive * 100 | round) %, \(.longest_join_s) s (\(.joins) joins), \(.longest_replacement_s) s (\(.replacements) replacements), \(.worst) off"' "$scratch/line")" \
  "$(jq '.hangs == 0 and .failures == 0 and .productive >= 0.8 and .longest_join_s <= 2 and .longest_replacement_s <= 5 and .joins > 0 and .replacements > 0 and .worst <= 1e-10' "$scratch/line")"
