# Every result of every collective on 1 to 16 ranks of one host: wherever the buffers lie, through shared memory and
# through messages, whatever is promised about bits. Sizes that fill a line, a slot, a stage, and several of them.
source bench/scorecard/lib/row.sh

collectives="all_reduce all_gather reduce_scatter all_to_all broadcast reduce gather scatter all_gatherv reduce_scatterv
  all_to_allv sendrecv"
modes=("" "--registered" "--in-place" "--registered --in-place" "--transport tcp" "--determinism reproducible"
  "--determinism layout_invariant")

suits() {  # RANKS COLLECTIVE MODE
  if [[ $1 == 1 && $2 == sendrecv ]]; then return 1; fi
  case $3 in
    *--in-place*) [[ $2 != sendrecv && $2 != broadcast ]] ;;
    *layout_invariant*) [[ $2 == *reduce* ]] && (( ($1 & ($1 - 1)) == 0 )) ;;
    *--determinism*) [[ $2 == *reduce* ]] ;;
  esac
}

for ranks in {1..16}; do
  for collective in $collectives; do
    for mode in "${modes[@]}"; do
      suits "$ranks" "$collective" "$mode" || continue
      # shellcheck disable=SC2086
      sinew_run -n "$ranks" "$bin/sinew-bench" "$collective" -b 8 -e 2MiB -f 64 --batch 1us $mode --json "$scratch/run" >&2
      cat "$scratch/run" >>"$scratch/all"
    done
  done
done
lines=$(jq -s length "$scratch/all")
wrong=$(jq -s 'map(.wrong) | add' "$scratch/all")
row wrong_results "elements that differ from the exact result, $lines measurements on 1 to 16 ranks" 0 "$wrong" \
  "$(jq -n "$wrong == 0 and $lines > 0")"

# Jobs that were started wrong on three hosts.
tests/hosts/wrong_starts.sh all "$bin" >"$scratch/starts" 2>&1 || cat "$scratch/starts" >&2
cases=$(tests/hosts/wrong_starts.sh list "$bin" | wc -l)
right=$(grep -c ': as expected$' "$scratch/starts" || true)
row wrong_starts "jobs started wrong on 3 hosts (docs/places/wrong_starts.md) whose processes say within 30 s what is wrong: one error or warning each, with the host and the cure; or whose sums are right, where nothing hinders them" \
  "all of at least 20" "$right of $cases" "$(jq -n "$right == $cases and $cases >= 20")"
