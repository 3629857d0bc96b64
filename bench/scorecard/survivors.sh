# One rank dies by SIGKILL in the middle of a collective: how long until every survivor has PeerLost with its name.
source bench/scorecard/lib/row.sh

ranks=4
worst=0 heard=0 due=0
for victim in 0 1 3; do
  sinew_run -n $ranks --on-failure continue "$bin/survivors" --victim $victim --stamp "$scratch/stamp" \
    >"$scratch/heard" || true
  due=$((due + ranks - 1))
  heard=$((heard + $(jq -s "map(select(.lost == $victim)) | length" "$scratch/heard")))
  worst=$(jq -s --argjson worst "$worst" 'map(.seconds) + [$worst] | max' "$scratch/heard")
done
row survivors "SIGKILL of one of $ranks ranks in an all-reduce: survivors that named it, and the last one's time" \
  "all, within 2 s" "$heard of $due, $(jq -n "$worst * 1000 | round / 1000") s" "$(jq -n "$heard == $due and $worst <= 2")"
