# All-reduce over shared memory, 2 ranks, ordinary memory, side by side with Open MPI in the same processes: five runs.
source bench/scorecard/lib/row.sh

runs=5
# sweep FILE FIRST LAST [options]: adds the lines that no neighbour disturbed
sweep() {
  local file=$1 first=$2 last=$3
  shift 3
  open_mpi -n 2 "$bin/sinew-bench" all_reduce -b "$first" -e "$last" -f 2 --transport shm --peer mpi --json "$scratch/run" "$@" >&2
  jq -c 'select(.noisy | not)' "$scratch/run" >>"$file"
}

# missing FILE: the sizes that have fewer good lines than there shall be runs
missing() { jq -sr --argjson runs $runs '[range(3; 27) | pow(2; .)] - (group_by(.bytes) | map(select(length >= $runs)[0].bytes)) | .[]' "$1"; }

# measure FILE [options]: five runs; a size that a neighbour disturbed is measured again, three more times at most per run
measure() {
  local file=$1 size
  shift
  for ((i = 0; i < runs; ++i)); do sweep "$file" 8 64MiB "$@"; done
  for ((i = 0; i < 3 * runs; ++i)); do
    for size in $(missing "$file"); do sweep "$file" "$size" "$size" "$@"; done
  done
}

# judge FILE: sets slowest, mean and note
judge() {
  medians_by_size "$1" >"$scratch/medians"
  slowest=$(jq -r 'min_by(.speedup) | "\(.speedup * 1000 | round / 1000) at \(.bytes) B"' "$scratch/medians")
  mean=$(jq -r 'map(.speedup | log) | add / length | exp * 1000 | round / 1000' "$scratch/medians")
  note=$(spoilt "$1")
  if [ -n "$(missing "$1")" ]; then note="$note${note:+, }noisy at $(missing "$1" | paste -sd ' ') B"; fi
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
