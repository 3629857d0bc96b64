# All-gather on 2 ranks of one host against both MPIs.
source bench/scorecard/lib/row.sh
source bench/scorecard/lib/versus.sh
source bench/scorecard/lib/both_mpis.sh

rows all_gather 0.95 1.15 all_gather
rows all_gather_registered - 1.5 all_gather --registered
