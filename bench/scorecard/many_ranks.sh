# All-reduce with more ranks than cores, side by side with Open MPI --oversubscribe in the same processes.
source bench/scorecard/lib/row.sh
source bench/scorecard/lib/versus.sh

oversubscribed() { open_mpi --oversubscribe "$@"; }

for ranks in 4 8; do
  measure oversubscribed "$scratch/$ranks" $ranks all_reduce --transport shm
  judge "$scratch/$ranks"
  row "all_reduce_${ranks}_ranks_everywhere" \
    "$ranks ranks on $(nproc) cores: Open MPI's time / ours, worst of the sizes 8 B..64 MiB, median of five runs" ">= 1.2" \
    "$(with_note "$slowest" "$note")" "$(jq -n "$clean and $worst >= 1.2")"
  row "all_reduce_${ranks}_ranks_mean" "$ranks ranks on $(nproc) cores: Open MPI's time / ours, geometric mean" ">= 2" \
    "$(with_note "$mean" "$note")" "$(jq -n "$clean and $mean >= 2")"
done
