# All-reduce over shared memory, 2 ranks, ordinary memory, side by side with Open MPI in the same processes: five runs.
source bench/scorecard/lib/row.sh

# measure FILE [options]
measure() {
  local file=$1
  shift
  for _ in 1 2 3 4 5; do
    open_mpi -n 2 "$bin/sinew-bench" all_reduce -b 8 -e 64MiB -f 2 --transport shm --peer mpi --json "$scratch/run" "$@" >&2
    cat "$scratch/run" >>"$file"
  done
}

# judge FILE: sets slowest, mean and note
judge() {
  medians_by_size "$1" >"$scratch/medians"
  slowest=$(jq -r 'min_by(.speedup) | "\(.speedup * 1000 | round / 1000) at \(.bytes) B"' "$scratch/medians")
  mean=$(jq -r 'map(.speedup | log) | add / length | exp * 1000 | round / 1000' "$scratch/medians")
  note=$(spoilt "$1")
}

measure "$scratch/selected"
judge "$scratch/selected"
clean=$([ -z "$note" ] && echo true || echo false)
row shm_all_reduce_everywhere "Open MPI's time / ours, worst of the sizes 8 B..64 MiB, median of five runs" ">= 0.95" \
  "$(with_note "$slowest" "$note")" "$(jq "$clean and (map(.speedup) | min) >= 0.95" "$scratch/medians")"
row shm_all_reduce_mean "Open MPI's time / ours, geometric mean over 8 B..64 MiB" ">= 1.2" \
  "$(with_note "$mean" "$note")" "$(jq -n "$clean and $mean >= 1.2")"

measure "$scratch/doubling" --algorithm recursive_doubling
judge "$scratch/doubling"
row shm_recursive_doubling "the same with recursive doubling alone: worst, mean" "shown" \
  "$(with_note "$slowest; $mean" "$note")" true
