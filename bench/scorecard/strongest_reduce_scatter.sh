# Reduce-scatter on 2 ranks of one host against the fastest of the newest MPIs.
source bench/scorecard/lib/row.sh
source bench/scorecard/lib/versus.sh
source bench/scorecard/lib/strongest.sh

strongest_rows strongest_reduce_scatter 1.0 1.4 reduce_scatter
