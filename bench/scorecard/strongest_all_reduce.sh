# All-reduce and reduce on 2 ranks of one host against the fastest of the newest MPIs.
source bench/scorecard/lib/row.sh
source bench/scorecard/lib/versus.sh
source bench/scorecard/lib/strongest.sh

strongest_rows strongest_all_reduce 1.0 1.3 all_reduce
strongest_rows strongest_all_reduce_registered 1.0 1.5 all_reduce --registered
strongest_rows strongest_reduce 0.97 1.2 reduce
