# Broadcast, gather and scatter on 2 ranks of one host against the fastest of the newest MPIs. An 8-byte broadcast of Open MPI
# returns at its root before anybody has it.
source bench/scorecard/lib/row.sh
source bench/scorecard/lib/versus.sh
source bench/scorecard/lib/strongest.sh

strongest_lines strongest_broadcast 2 broadcast
least_bytes=16
strongest_row everywhere strongest_broadcast 0.97 broadcast
least_bytes=8
strongest_row everywhere strongest_broadcast/8 0.8 broadcast
strongest_row mean strongest_broadcast 1.2 broadcast
strongest_rows strongest_gather 0.97 1.2 gather
strongest_rows strongest_scatter 0.97 1.2 scatter
