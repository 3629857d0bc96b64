# All-gather and all-to-all on 2 ranks of one host against the fastest of the newest MPIs.
source bench/scorecard/lib/row.sh
source bench/scorecard/lib/versus.sh
source bench/scorecard/lib/strongest.sh

strongest_rows strongest_all_gather 0.97 1.1 all_gather
strongest_rows strongest_all_to_all 0.97 1.1 all_to_all
strongest_rows strongest_all_to_allv 0.97 - all_to_allv
