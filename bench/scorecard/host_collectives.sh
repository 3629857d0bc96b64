# Every collective over shared memory, 2 ranks, side by side with Open MPI and with MPICH in the same processes.
# A row holds if it holds against each of the two: it shows the worse.
source bench/scorecard/lib/row.sh
source bench/scorecard/lib/versus.sh

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

rows all_reduce 1.0 1.7 all_reduce
rows all_reduce_registered 1.3 2.3 all_reduce --registered
rows reduce_scatter 1.0 1.7 reduce_scatter
rows reduce_scatter_registered - 2.3 reduce_scatter --registered
for collective in all_gather all_to_all broadcast; do
  if [ $collective = broadcast ]; then least_bytes=16; fi  # MPI's broadcast of 8 bytes does not synchronise
  rows $collective 0.95 1.15 $collective
  rows ${collective}_registered - 1.5 $collective --registered
done
least_bytes=8
for collective in latency bandwidth all_to_allv; do
  rows $collective 0.95 1.1 $collective
done
