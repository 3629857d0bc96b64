# Every result of every collective on 1 to 16 ranks of one host: wherever the buffers lie, through shared memory and
# through messages, whatever is promised about bits. Sizes that fill a line, a slot, a stage, and several of them.
source bench/scorecard/lib/row.sh

collectives="all_reduce all_gather reduce_scatter all_to_all broadcast reduce gather scatter all_gatherv reduce_scatterv
  all_to_allv sendrecv"
modes=("" "--registered" "--in-place" "--registered --in-place" "--transport tcp" "--determinism reproducible"
  "--determinism layout_invariant")

suits() {  # MODE COLLECTIVE
  case $1 in
    *--in-place*) [[ $2 != sendrecv && $2 != broadcast ]] ;;
    *--determinism*) [[ $2 == *reduce* ]] ;;
  esac
}

for ranks in {1..16}; do
  for collective in $collectives; do
    for mode in "${modes[@]}"; do
      suits "$mode" "$collective" || continue
      # shellcheck disable=SC2086
      sinew_run -n "$ranks" "$bin/sinew-bench" "$collective" -b 8 -e 2MiB -f 64 $mode --json "$scratch/run" >&2
      cat "$scratch/run" >>"$scratch/all"
    done
  done
done
lines=$(jq -s length "$scratch/all")
wrong=$(jq -s 'map(.wrong) | add' "$scratch/all")
row wrong_results "elements that differ from the exact result, $lines measurements on 1 to 16 ranks" 0 "$wrong" \
  "$(jq -n "$wrong == 0 and $lines > 0")"
