# One rank dies by SIGKILL in the middle of a collective: how long until every survivor has PeerLost with its name.
source bench/scorecard/lib/row.sh

ranks=4
# survivors_row NAME WHERE COMMAND..
survivors_row() {
  local name=$1 where=$2 worst=0 heard=0 on=0 due=0 victim
  shift 2
  for victim in 0 1 3; do
    "$@" --victim $victim --stamp "$scratch/stamp" | sed 's/^\[[0-9]*\] //' >"$scratch/heard" || true
    due=$((due + ranks - 1))
    heard=$((heard + $(jq -s "map(select(.lost == $victim)) | length" "$scratch/heard")))
    on=$((on + $(jq -s "map(select(.went_on)) | length" "$scratch/heard")))
    worst=$(jq -s --argjson worst "$worst" 'map(.seconds) + [$worst] | max' "$scratch/heard")
  done
  row "$name" "$where: SIGKILL of one of $ranks ranks in an all-reduce: survivors that named it, the last one's time, and \
how many went on with 100 right sums" "all, within 2 s, all" "$heard of $due, $(jq -n "$worst * 1000 | round / 1000") s, $on" \
    "$(jq -n "$heard == $due and $on == $due and $worst <= 2")"
}

survivors_row survivors "one host" "$bin/sinew-run" -n $ranks --on-failure continue "$bin/survivors"
if unshare -n true 2>/dev/null; then
  survivors_row survivors_two_hosts "two hosts" tests/programs/two_hosts.sh run "$PWD/$bin/survivors" "$PWD/$bin/sinew-run"
fi
