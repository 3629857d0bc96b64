# One rank dies by SIGKILL in the middle of a collective, each rank in its turn: how long until every survivor has
# PeerLost with its name.
source bench/scorecard/lib/row.sh

ranks=4
what="SIGKILL of each of $ranks ranks in turn, in an all-reduce: survivors that named it, the last one's time, and how many \
went on with 100 right sums"
must="all, within 2 s, all"

# survivors_row NAME WHERE COMMAND..
survivors_row() {
  local name=$1 where=$2 worst=0 heard=0 on=0 victim
  local -r due=$((ranks * (ranks - 1)))
  shift 2
  for ((victim = 0; victim < ranks; ++victim)); do
    "$@" --victim $victim --stamp "$scratch/stamp" | sed 's/^\[[0-9]*\] //' >"$scratch/heard" || true
    heard=$((heard + $(jq -s "map(select(.lost == $victim)) | length" "$scratch/heard")))
    on=$((on + $(jq -s "map(select(.went_on)) | length" "$scratch/heard")))
    worst=$(jq -s --argjson worst "$worst" 'map(.seconds) + [$worst] | max' "$scratch/heard")
  done
  row "$name" "$where: $what" "$must" "$heard of $due, $(jq -n "$worst * 1000 | round / 1000") s, $on" \
    "$(jq -n "$heard == $due and $on == $due and $worst <= 2")"
}

survivors_row survivors "one host" "$bin/sinew-run" -n $ranks --on-failure continue "$bin/survivors"
for transport in shm tcp ucx; do
  SINEW_TRANSPORTS=$transport survivors_row "survivors_$transport" "one host, $transport" \
    "$bin/sinew-run" -n $ranks --on-failure continue "$bin/survivors"
done
if [ -e build/release/lib/sinew-modules/sinew_ofi.so ]; then
  for provider in "tcp;ofi_rxm" shm; do
    SINEW_TRANSPORTS=ofi SINEW_OFI_PROVIDER=$provider survivors_row "survivors_ofi_${provider%;*}" "one host, ofi over $provider" \
      "$bin/sinew-run" -n $ranks --on-failure continue "$bin/survivors"
  done
fi
survivors_row survivors_openmpi "Open MPI's --enable-recovery" \
  open_mpi --enable-recovery --oversubscribe -n $ranks "$bin/survivors"
# hidden_row START: three hosts of one rank each, of which the first or the last leaves something behind that holds its descriptors.
hidden_row() {
  local start=$1 worst=0 worst_shrink=0 heard=0 on=0 victim leaves
  local -r due=$((4 * 2 * 2))
  for leaves in early child grandchild clone; do
    for victim in 0 2; do
      tests/hosts/hidden_death.sh "$start" "$PWD/$bin/sinew-run" "$PWD/$bin/survivors" $victim $leaves 2>/dev/null |
        sed 's/^\[[0-9]*\] //' | grep '^{' >"$scratch/heard" || true
      heard=$((heard + $(jq -s "map(select(.lost == $victim)) | length" "$scratch/heard")))
      on=$((on + $(jq -s "map(select(.went_on)) | length" "$scratch/heard")))
      worst=$(jq -s --argjson worst "$worst" 'map(.seconds) + [$worst] | max' "$scratch/heard")
      worst_shrink=$(jq -s --argjson worst "$worst_shrink" 'map(.shrink_seconds) + [$worst] | max' "$scratch/heard")
    done
  done
  row "survivors_hidden_$start" "three hosts, $start, SIGKILL of a rank that leaves a child (forked before the World, after it, a grandchild, by \
clone()): survivors that named it, the last one's time, the longest shrink, and how many went on" "all, within 2 s, within 3 s, all" \
    "$heard of $due, $(jq -n "$worst * 1000 | round / 1000") s, $(jq -n "$worst_shrink * 1000 | round / 1000") s, $on" \
    "$(jq -n "$heard == $due and $on == $due and $worst <= 2 and $worst_shrink <= 3")"
}

if unshare -n true 2>/dev/null; then
  survivors_row survivors_two_hosts "two hosts" tests/hosts/run.sh --launcher "$PWD/$bin/sinew-run" --ranks 2,2 "$PWD/$bin/survivors"
  for transport in tcp ucx ofi; do
    [ -e "build/release/lib/sinew-modules/sinew_$transport.so" ] || [ $transport = tcp ] || continue
    SINEW_TRANSPORTS=$transport SINEW_OFI_PROVIDER=tcp survivors_row "survivors_two_hosts_$transport" \
      "two hosts, $transport" tests/hosts/run.sh --launcher "$PWD/$bin/sinew-run" --ranks 2,2 "$PWD/$bin/survivors"
  done
  for start in sinew_run variables torchrun slurm openmpi; do hidden_row $start; done
else
  row survivors_two_hosts "two hosts: $what" "$must" "not measured: no network namespaces here" false
fi
