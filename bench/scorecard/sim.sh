# What it takes to cost a collective of 1 GiB for 100,000 ranks that nobody here has.
source bench/scorecard/lib/row.sh

limit_s=30 limit_kib=$((4 << 20))
# cost COLLECTIVE ALGORITHM: seconds, or "no" beyond the limits of time or memory
cost() {
  local begin
  begin=$(date +%s%N)
  (
    ulimit -v $limit_kib
    timeout $limit_s "$bin/sinew-sim" "$1" 1GiB --cluster dgx-h100x12500 --network rail_optimised --algorithm "$2" --json
  ) | jq -e '.ranks == 100000 and any(.algorithms[]; .time_us > 0)' >/dev/null || { echo no; return; }
  jq -n "($(date +%s%N) - $begin) / 1e7 | round / 100"
}

# cost_row COLLECTIVE ALGORITHM..
cost_row() {
  local collective=$1 algorithm seconds all='' ok=true
  shift
  for algorithm in "$@"; do
    seconds=$(cost "$collective" "$algorithm")
    [ "$seconds" != no ] || ok=false
    all+="${all:+, }$algorithm $seconds"
  done
  row "sim_$collective" "sinew-sim $collective 1GiB on 12,500 x 8 ranks, rail-optimised: seconds, in 4 GiB of address space" \
    "each < $limit_s s" "$all" $ok
}
cost_row all_reduce hierarchical ring double_binary_tree
cost_row all_gather hierarchical ring
cost_row reduce_scatter hierarchical ring
cost_row all_to_all hierarchical pairwise direct

# All candidates for one call, by as many threads as sinew-sim takes.
/usr/bin/time -f '%e %M' -o "$scratch/took" "$bin/sinew-sim" all_reduce 64MiB --cluster dgx-h100x12500 --json >"$scratch/all"
read -r seconds kib <"$scratch/took"
row sim_all_candidates "sinew-sim all_reduce 64MiB --cluster dgx-h100x12500, all candidates: seconds and MiB" "<= 20 s, <= 2048 MiB" \
  "$seconds s, $((kib / 1024)) MiB, $(jq '[.algorithms[] | select(.time_us > 0)] | length' "$scratch/all") simulated" \
  "$(jq -n "$seconds <= 20 and $kib <= 2097152 and $(jq '[.algorithms[] | select(.time_us > 0)] | length >= 9' "$scratch/all")")"
