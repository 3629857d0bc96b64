# What the Python package adds to C++: an all_reduce of NumPy arrays, 2 ranks of one host, in turns in the same processes.
# Figures are medians of three runs, because a neighbour that takes one of the cores spoils a run.
source bench/scorecard/lib/row.sh

for run in 1 2 3; do
  PYTHONPATH=build/release/python sinew_run -n 2 build/python/bin/python bench/python/overhead.py \
    --sizes 8,1MiB,4MiB,16MiB --json "$scratch/run$run" >&2
done

# of BYTES FIELD
of() {
  jq -s --argjson bytes "$1" "[.[].rows[] | select(.bytes == \$bytes) | .$2] | sort | .[length / 2 | floor] * 1000 | round / 1000" "$scratch"/run*
}

more=$(of 8 more_us)
row python_8 "all_reduce of a float64 in a NumPy array, in place, 2 ranks: Python over C++" "<= 0.8 us" \
  "$more us: $(of 8 python_us) us, $(of 8 cpp_us) us" "$(jq -n "$more <= 0.8")"
for bytes in 1048576 4194304 16777216; do
  ratio=$(of $bytes ratio)
  row "python_$bytes" "all_reduce of $bytes B in a NumPy array, in place, 2 ranks: Python / C++" "<= 1.02" \
    "$ratio: $(of $bytes python_us) us / $(of $bytes cpp_us) us" "$(jq -n "$ratio <= 1.02")"
done
