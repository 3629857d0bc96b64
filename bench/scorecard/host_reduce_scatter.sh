# Reduce-scatter on 2 ranks of one host against both MPIs.
source bench/scorecard/lib/row.sh
source bench/scorecard/lib/versus.sh
source bench/scorecard/lib/both_mpis.sh

rows reduce_scatter 1.0 1.7 reduce_scatter
rows reduce_scatter_registered - 2.3 reduce_scatter --registered
