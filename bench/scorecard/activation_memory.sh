# Activations of a transformer of 12 blocks: what a rank holds at most beside what is planned, and beside no policy.
source bench/scorecard/lib/row.sh

"$bin/activation_memory" "$scratch" >"$scratch/lines"
worst=$(jq -s 'map((.held_bytes / .planned_bytes - 1) * 100 | if . < 0 then -. else . end) | max * 10 | round / 10' "$scratch/lines")
row activation_memory "activations under recomputation and offload to a file: held at most beside what is planned, largest difference of $(wc -l <"$scratch/lines") policies" \
  "<= 5 %" "$worst %" "$(jq -n "$worst <= 5")"

parts=$(jq -rs '.[0].held_bytes as $all | map("\(.policy) \(.held_bytes * 100 / $all | round) %") | join(", ")' "$scratch/lines")
row activation_policies "the same: held at most, in parts of what is held without a policy; gradients are equal to the last bit" \
  "less, equal" "$parts" "$(jq -s '.[0].held_bytes as $all | all(.same) and (.[1:] | all(.held_bytes < $all))' "$scratch/lines")"
