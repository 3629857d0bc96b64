# Collectives over shared memory, 2 ranks, side by side with Debian's Open MPI and MPICH in the same processes. Sourced after
# row.sh and versus.sh.

# rows NAME EVERYWHERE MEAN COLLECTIVE [options]: two rows, worst size and geometric mean, of the slower comparison;
# EVERYWHERE may be "-": only the mean is promised
rows() {
  local name=$1 everywhere=$2 least_mean=$3 mpi all_clean=true low='' lows='' means='' least='' notes=''
  shift 3
  for mpi in open_mpi mpich; do
    measure $mpi "$scratch/$name.$mpi" 2 "$@" --transport shm
    judge "$scratch/$name.$mpi"
    lows="$lows${lows:+; }$mpi $slowest"
    means="$means${means:+; }$mpi $mean"
    low=$(jq -n "[$worst, ${low:-$worst}] | min")
    least=$(jq -n "[$mean, ${least:-$mean}] | min")
    notes="$notes${note:+ $mpi: $note}"
    if ! $clean; then all_clean=false; fi
  done
  if [ "$everywhere" != - ]; then
    row "${name}_everywhere" "MPI's time / ours: $*, worst of 8 B..64 MiB, median of five runs" ">= $everywhere" \
      "$(with_note "$lows" "$notes")" "$(jq -n "$all_clean and $low >= $everywhere")"
  fi
  row "${name}_mean" "MPI's time / ours: $*, geometric mean over 8 B..64 MiB" ">= $least_mean" \
    "$(with_note "$means" "$notes")" "$(jq -n "$all_clean and $least >= $least_mean")"
}
