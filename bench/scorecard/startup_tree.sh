# A start-up of up to 100,000 ranks on hosts of eight, in a simulation that runs the library's own decisions.
source bench/scorecard/lib/row.sh

for ranks in 1000 10000 100000; do "$bin/startup_tree" -n $ranks; done >"$scratch/counts"
per() { jq -sr "map($1 | floor) | join(\", \")" "$scratch/counts"; }
row startup_tree_messages "start-up of 1,000, 10,000 and 100,000 ranks: messages for each rank and round" \
  "grows no faster than log N" "$(jq -sr 'map(.messages / .ranks / 2 * 100 | round / 100) | join(", ")' "$scratch/counts")" \
  "$(jq -s 'map(.messages / (.ranks * (.ranks | log2))) | .[1] <= .[0] and .[2] <= .[1]' "$scratch/counts")"
row startup_tree_rank_0 "the same: messages at rank 0, of which in one round; the most that wait there; connections" \
  "<= 6 a host; <= 100 a round; <= 100 wait; <= 64 connections" \
  "$(per .rank_0_messages); $(per .rank_0_round_messages); $(per .rank_0_most_waiting); $(per .rank_0_most_connections)" \
  "$(jq -s 'all(.rank_0_messages <= 6 * .hosts + 500 and .rank_0_round_messages <= 100 and .rank_0_most_waiting <= 100
    and .rank_0_most_connections <= 64)' "$scratch/counts")"
