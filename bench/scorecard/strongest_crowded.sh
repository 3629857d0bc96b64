# All-reduce of more ranks than cores against Intel MPI and Open MPI 5, which yield by themselves there.
source bench/scorecard/lib/row.sh
source bench/scorecard/lib/versus.sh
source bench/scorecard/lib/strongest.sh
peer_names=(impi openmpi)  # MPICH 5 takes 30 to 600 times as long there, whatever is set

for ranks in 4 7 8; do
  strongest_lines "strongest_${ranks}_ranks" "$ranks" all_reduce
  judge_strongest "strongest_${ranks}_ranks" impi
  intel=$mean intel_worst=$slowest intel_least=$worst
  judge_strongest "strongest_${ranks}_ranks" openmpi
  row "strongest_${ranks}_ranks_mean" "all_reduce of $ranks ranks on $(nproc) cores, 8 B..64 MiB: geometric means of the time of Intel MPI and of Open MPI 5 / ours" \
    ">= 1.8 and >= 2.2" "$(with_note "$intel and $mean" "$note")" "$(jq -n "$intel >= 1.8 and $mean >= 2.2")"
  row "strongest_${ranks}_ranks_everywhere" "the same: worst sizes" ">= 1.1" "$intel_worst; $slowest" "$(jq -n "$intel_least >= 1.1 and $worst >= 1.1")"
done
