# What gpt takes under ten layouts beside what was predicted: memory before the first step, and the time of a step from computing that was
# measured on one rank alone and the World's cost model. Two of the layouts are on two hosts, network namespaces joined by 2 Gbit/s.
source bench/scorecard/lib/row.sh

model="--layers 4 --heads 4 --width 256 --context 128 --batch 8 --steps 5"
tries=3

# predict LAYOUT RUN..: a line of gpt_prediction; RUN starts it with the options that follow. The median of three, of which each compares a
# prediction and a measurement of the same moment.
predict() {
  local layout=$1 try  # not name, which is the hosts'
  shift
  for ((try = 0; try < tries; ++try)); do
    # shellcheck disable=SC2086
    "$@" $model >"$scratch/out" 2>"$scratch/err" || cat "$scratch/err" >&2
    sed -n 's/^\(\[[0-9]*\] \)\?\({"ranks.*\)$/\2/p' "$scratch/out" >>"$scratch/tries"
  done
  jq -cs --arg name "$layout" 'select(length > 0) | sort_by(.step_error | fabs) | .[length / 2 | floor] + {name: $name}' \
    "$scratch/tries" >>"$scratch/all"
  rm "$scratch/tries"
}
# Clock ticks of all cores: in all, busy, and of what this script has started.
ticks() { awk '/^cpu / { for (f = 2; f <= 9; ++f) all += $f; print all, all - $5 - $6 }' /proc/stat; }
own_ticks() { awk '{ print $16 + $17 }' "/proc/$$/stat"; }

here() { local ranks=$1; shift; "$bin/sinew-run" -n "$ranks" "$bin/gpt_prediction" "$@"; }
between() { local ranks=$1; shift; on_all "$PWD/$bin/sinew-run" "$ranks" "$PWD/$bin/gpt_prediction" "$@"; }

read -r all_before busy_before < <(ticks)
own_before=$(own_ticks)
predict one here 1
predict "one, full recomputation" here 1 --recompute full --micro-batches 2
predict "dp 2" here 2
predict "zero 3, 2 ranks" here 2 --zero 3
predict "tp 2, rows too" here 2 --tp 2 --sp
predict "cp 2" here 2 --cp 2
predict "pp 2" here 2 --pp 2 --micro-batches 4
predict "pp 2 dp 2, zero 1" here 4 --pp 2 --micro-batches 4 --zero 1
if unshare -n true 2>/dev/null; then
  (
    source tests/hosts/namespaces.sh
    make_hosts 2 1 2gbit
    predict "2 hosts: dp 2, zero 1" between 1,1 --zero 1
    predict "2 hosts: tp 2 dp 2" between 2,2 --tp 2
  )
fi
read -r all busy < <(ticks)
others=$(jq -n "(($busy - $busy_before) - ($(own_ticks) - $own_before)) / ($all - $all_before) * 100 | round")
note=$([ "$others" -le 2 ] || echo "others took $others % of the cores")
count=$(wc -l <"$scratch/all")
each() { jq -rs "[.[] | \"\(.name) $1\"] | join(\", \")" "$scratch/all"; }
row gpt_predicted_memory "gpt: what ranks hold at most beside what was predicted, largest difference of 10 layouts on 1 to 4 ranks, 2 of them on 2 hosts" \
  "<= 2 %" "$(jq -s 'map(.memory_error) | max * 100 | . * 1000 | round / 1000' "$scratch/all") % ($count layouts)" \
  "$(jq -s 'length == 10 and (map(.memory_error) | max) <= 0.02' "$scratch/all")"
row gpt_predicted_step "the same: time of a step beside what was predicted, largest difference" "<= 25 %" \
  "$(jq -s 'map(.step_error | fabs) | max * 1000 | round / 10' "$scratch/all") % (${note:+$note; }$(each '\(.predicted_s * 1000 | round) of \(.measured_s * 1000 | round) ms'))" \
  "$(jq -s 'length == 10 and (map(.step_error | fabs) | max) <= 0.25' "$scratch/all")"
