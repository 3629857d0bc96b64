# 8 ranks on however few cores there are: the sweep completes, and 8 bytes are not slower than Open MPI's.
source bench/scorecard/lib/row.sh

open_mpi --oversubscribe -n 8 "$bin/sinew-bench" all_reduce -b 8 -e 64MiB -f 2 --transport shm --peer mpi \
  --json "$scratch/sweep" >&2
sizes=$(jq -s 'map(.bytes) | unique | length' "$scratch/sweep")
wrong=$(jq -s 'map(.wrong) | add' "$scratch/sweep")
row oversubscribed_sweep "8 ranks on $(nproc) cores: sizes 8 B..64 MiB that completed" "24, none wrong" \
  "$sizes, $wrong wrong" "$(jq -n "$sizes == 24 and $wrong == 0")"
jq -s 'map(select(.bytes == 8))[0]' "$scratch/sweep" >"$scratch/small"
row oversubscribed_small "8 ranks on $(nproc) cores: Open MPI's time / ours at 8 B" ">= 1" \
  "$(jq -r '"\(.speedup * 100 | round / 100)\(if .noisy then " (noisy)" else "" end)"' "$scratch/small")" \
  "$(jq '.speedup >= 1 and (.noisy | not)' "$scratch/small")"
