# All-to-all between hosts, which are network namespaces joined by links of 2 Gbit/s, as selection chooses: how many times as fast as the
# flat algorithm that selection would take without the hierarchical one. The two take turns, and a figure is the ratio of their medians.
source bench/scorecard/lib/row.sh

rounds=7
small=64 # bytes of a part, the most that count as small

# times COLLECTIVE RANKS: [{part, ratio, wrong, way}] by bytes of a part
times() {
  local collective=$1 ranks=$2 hosts total=0 here round way arguments
  IFS=, read -r -a hosts <<<"$ranks"
  for here in "${hosts[@]}"; do total=$((total + here)); done
  (
    source tests/hosts/namespaces.sh
    make_hosts ${#hosts[@]} 1 2gbit
    for ((round = 0; round < rounds; ++round)); do
      for way in chosen direct; do
        arguments=()
        if [ "$way" = direct ]; then arguments=(--algorithm direct); fi
        on_all "$PWD/$bin/sinew-run" "$ranks" "$PWD/$bin/sinew-bench" "$collective" -b $((8 * total)) -e $((total << 18)) \
          -f 8 -n 20 -w 2 "${arguments[@]}" --json "$scratch/line" >&2
        jq -c --arg way "$way" --argjson total "$total" '{$way, part: (.bytes / $total), time_us, wrong, algorithm}' "$scratch/line"
      done
    done
  ) | jq -s 'def mid(f): map(f) | sort | .[length / 2 | floor];
    group_by(.part) | map({part: .[0].part, wrong: (map(.wrong) | add),
      ratio: ((map(select(.way == "direct")) | mid(.time_us)) / (map(select(.way == "chosen")) | mid(.time_us))),
      way: (map(select(.way == "chosen").algorithm) | unique | join(" and "))})'
}

# judge NAME WHAT MUST FILTER FOUND: the least ratio of the parts that FILTER selects
judge() {
  local found
  found=$(jq "{wrong: (map(.wrong) | add), of: map(select($4))}" <<<"$5")
  row "$1" "$2" ">= $3" \
    "$(jq -r '"\(.of | map(.ratio) | min * 100 | round / 100) (" + (.of | map("\(.part) B: \(.ratio * 100 | round / 100), \(.way)") | join("; ")) + ")" +
       (if .wrong > 0 then ", \(.wrong) wrong" else "" end)' <<<"$found")" \
    "$(jq --argjson must "$3" '.wrong == 0 and (.of | map(.ratio) | min) >= $must' <<<"$found")"
}

if ! unshare -n true 2>/dev/null; then
  row hosts_all_to_all "all_to_all between hosts" "measured" "not measured: no network namespaces here" false
  exit 0
fi
for ranks in 3,3 3,3,3; do
  for collective in all_to_all all_to_allv; do
    found=$(times $collective $ranks)
    name=hosts_${collective}_${ranks//,/_}
    what="$collective, $ranks ranks on hosts joined by 2 Gbit/s: times as fast as direct, the least of all"
    judge "${name}_small" "$what sizes up to $small B for each rank" 1.5 ".part <= $small" "$found"
    judge "${name}_large" "$what longer sizes up to 256 KiB for each rank" 0.95 ".part > $small" "$found"
  done
done
