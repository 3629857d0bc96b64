# What the C API adds to an 8-byte all_reduce of the C++ API. The figure is the median of five runs, because a neighbour
# that takes one of the cores spoils a run.
source bench/scorecard/lib/row.sh

for run in 1 2 3 4 5; do "$bin/c_overhead" --json "$scratch/run$run" >&2; done

# median FIELD
median() { jq -s "[.[].$1] | sort | .[length / 2 | floor] * 10 | round / 10" "$scratch"/run*; }

added=$(median c)
row c_overhead "what the C API adds to an 8-byte all_reduce over shared memory; the same with the caller's line" \
  "<= 20 ns; shown" "$added; $(median with_site) ns" "$(jq -n "$added <= 20")"
