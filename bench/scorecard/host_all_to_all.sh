# All-to-all on 2 ranks of one host against both MPIs.
source bench/scorecard/lib/row.sh
source bench/scorecard/lib/versus.sh
source bench/scorecard/lib/both_mpis.sh

rows all_to_all 0.95 1.15 all_to_all
rows all_to_all_registered - 1.5 all_to_all --registered
