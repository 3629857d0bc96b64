# The choices that ten fresh starts lead to: five on a quiet machine, and five beside a load that ends. A job after the load measures
# again what is in doubt, once the ten minutes between two measurements are over. How long calls take by the costs of each start.
source bench/scorecard/lib/row.sh

rounds=5
# bench CACHE ARGUMENTS..: two ranks by these costs, which are kept as they were for the next run
bench() {
  local cache=$1
  shift
  SINEW_CACHE=$cache sinew_run -n 2 "$bin/sinew-bench" "$@" --transport shm >&2
}
end_load() {
  local process
  for process in "${load[@]}"; do
    kill "$process"
    wait "$process" || true
  done
  load=()
} 2>/dev/null

load=()
trap 'end_load; rm -rf "$scratch"' EXIT
for start in 1 2 3 4 5; do
  bench "$scratch/quiet$start" all_reduce -b 8 -e 8
  for ((i = 0; i < $(nproc); ++i)); do
    sh -c 'while :; do :; done' & load+=($!)
  done
  bench "$scratch/loaded$start" all_reduce -b 8 -e 8
  end_load
  jq '.again_at_s = 0' "$scratch/loaded$start" >"$scratch/later"
  mv "$scratch/later" "$scratch/loaded$start"
  bench "$scratch/loaded$start" all_reduce -b 8 -e 8
done
for ((round = 0; round < rounds; ++round)); do
  for start in quiet{1,2,3,4,5} loaded{1,2,3,4,5}; do
    for collective in all_reduce all_gather all_to_all; do
      cp "$scratch/$start" "$scratch/costs"
      bench "$scratch/costs" $collective -b 2KiB -e 2MiB -f 8 --json "$scratch/line"
      jq -c --arg start "$start" '{$start, collective, bytes, time_us, wrong, noisy}' "$scratch/line"
    done
  done
done >"$scratch/lines"
jq -s 'def mid: sort | .[length / 2 | floor];
  map(select(.noisy | not)) | group_by([.collective, .bytes])
  | map({what: "\(.[0].collective) of \(.[0].bytes) B", times: (group_by(.start) | map({start: .[0].start, us: (map(.time_us) | mid)}))}
        | . + {worst: (.times | max_by(.us)), best: (.times | map(.us) | min)} | . + {ratio: (.worst.us / .best)})' \
  "$scratch/lines" >"$scratch/ratios"
wrong=$(jq -s 'map(.wrong) | add' "$scratch/lines")
noisy=$(jq -s 'map(select(.noisy)) | length' "$scratch/lines")
row fresh_starts "10 fresh starts, 5 of them beside a load that then ended: all_reduce, all_gather and all_to_all of 2 KiB..1 MiB on 2 ranks by the costs of each, medians of $rounds rounds: slowest start / fastest, worst size" \
  "<= 1.05" "$(jq -r --arg noisy "$noisy" 'if length == 0 then "every line was noisy" else max_by(.ratio) | "\(.ratio * 1000 | round / 1000) (\(.what), \(.worst.start))" + (if $noisy != "0" then ", \($noisy) lines noisy" else "" end) end' "$scratch/ratios")" \
  "$(jq --argjson wrong "$wrong" '$wrong == 0 and length == 12 and (map(.times | length) | min) == 10 and (map(.ratio) | max) <= 1.05' "$scratch/ratios")"
