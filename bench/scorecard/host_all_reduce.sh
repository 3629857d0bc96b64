# All-reduce on 2 ranks of one host against both MPIs.
source bench/scorecard/lib/row.sh
source bench/scorecard/lib/versus.sh
source bench/scorecard/lib/both_mpis.sh

rows all_reduce 1.0 1.7 all_reduce
rows all_reduce_registered 1.3 2.3 all_reduce --registered
