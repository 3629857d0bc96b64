# All-reduce over shared memory, 2 ranks, ordinary memory, side by side with Open MPI in the same processes: five runs.
source bench/scorecard/lib/row.sh
source bench/scorecard/lib/versus.sh

measure open_mpi "$scratch/selected" 2 all_reduce --transport shm
judge "$scratch/selected"
row shm_all_reduce_everywhere "Open MPI's time / ours, worst of the sizes 8 B..64 MiB, median of five runs" ">= 0.95" \
  "$(with_note "$slowest" "$note")" "$(jq -n "$clean and $worst >= 0.95")"
row shm_all_reduce_mean "Open MPI's time / ours, geometric mean over 8 B..64 MiB" ">= 1.2" \
  "$(with_note "$mean" "$note")" "$(jq -n "$clean and $mean >= 1.2")"

measure open_mpi "$scratch/doubling" 2 all_reduce --transport shm --algorithm recursive_doubling
judge "$scratch/doubling"
row shm_recursive_doubling "the same with recursive doubling alone: worst, mean" "shown" \
  "$(with_note "$slowest; $mean" "$note")" true
