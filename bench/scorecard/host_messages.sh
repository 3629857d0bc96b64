# Messages, and all-to-all with skewed counts, on 2 ranks of one host against both MPIs.
source bench/scorecard/lib/row.sh
source bench/scorecard/lib/versus.sh
source bench/scorecard/lib/both_mpis.sh

for exercise in latency bandwidth all_to_allv; do
  rows $exercise 0.95 1.1 $exercise
done
