# 2 ranks under CPU quotas that are set in nested control groups: nobody stands still until the kernel's next period.
# QUOTA_SECONDS: another time for each run than 4 s.
source bench/scorecard/lib/row.sh
source bench/scorecard/lib/cgroups.sh

seconds=${QUOTA_SECONDS:-4}
what="2 ranks, all-reduce of 8 B for $seconds s"
ranks=("$bin/sinew-run" -n 2 --no-prefix "$bin/quota" --seconds "$seconds")

make_groups
if [ -n "$no_groups" ]; then
  row quota "$what under a CPU quota" "no stall over 10 ms" "not measured: $no_groups" false
  exit 0
fi

# The quota is set outside, within, or on both levels; the least counts.
for cores in 1 1.5; do
  for levels in "$cores none" "none $cores" "1.9 $cores"; do
    # shellcheck disable=SC2086 # two words
    limit_both $levels
    in_inner "${ranks[@]}" | jq -c --arg levels "$levels" '. + {$levels}' >>"$scratch/$cores"
  done
  row "quota_$cores" "$what, one after the other, under a quota of $cores: calls that took more than 10 ms; mean, longest" "0" \
    "$(jq -rs '"\(map(.stalls) | add); \(map(.mean_us) | max) us, \(map(.worst_ms) | max) ms"' "$scratch/$cores")" \
    "$(jq -s 'map(.stalls) | add == 0' "$scratch/$cores")"
done

limit_both 1.9 0.5
in_inner "${ranks[@]}" >"$scratch/nested"
as_root_group "${ranks[@]}" >"$scratch/root"
in_inner "$bin/quota" --sleepers --seconds "$seconds" >"$scratch/sleepers"
jq -s '{mean: (.[0].mean_us / .[1].mean_us), worst: (.[0].worst_ms / .[1].worst_ms)}' "$scratch/nested" "$scratch/root" \
  >"$scratch/ratio"
as_text='"\(.mean_us) us, \(.worst_ms) ms"'
row quota_0.5 "$what, under a quota of 0.5: mean and longest, over those where the group with the quota is the top" "<= 1.5 or <= 10 ms" \
  "$(jq -r '"\(.mean * 100 | round / 100), \(.worst * 100 | round / 100)"' "$scratch/ratio") ($(jq -r "$as_text" "$scratch/nested"); two processes that only sleep and wake: $(jq -r "$as_text" "$scratch/sleepers"))" \
  "$(jq -s '.[0].mean <= 1.5 and (.[0].worst <= 1.5 or .[1].worst_ms <= 10)' "$scratch/ratio" "$scratch/nested")"

in_inner "${ranks[@]}" --every 0.002 >"$scratch/paused"
row quota_0.5_every_2_ms "$what, one every 2 ms, under a quota of 0.5: calls that took more than 10 ms; mean, longest" "0" \
  "$(jq -r "\"\(.stalls); \" + $as_text" "$scratch/paused")" "$(jq '.stalls == 0' "$scratch/paused")"
