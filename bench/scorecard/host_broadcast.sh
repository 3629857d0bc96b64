# Broadcast on 2 ranks of one host against both MPIs, whose broadcast of 8 bytes does not synchronise.
source bench/scorecard/lib/row.sh
source bench/scorecard/lib/versus.sh
source bench/scorecard/lib/both_mpis.sh

least_bytes=16
rows broadcast 0.95 1.15 broadcast
rows broadcast_registered - 1.5 broadcast --registered
