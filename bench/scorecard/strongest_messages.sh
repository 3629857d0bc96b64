# Messages between 2 ranks of one host against the fastest of the newest MPIs.
source bench/scorecard/lib/row.sh
source bench/scorecard/lib/versus.sh
source bench/scorecard/lib/strongest.sh

strongest_rows strongest_bandwidth 1.0 1.4 bandwidth
strongest_lines strongest_latency 2 latency
strongest_row everywhere strongest_latency/impi 0.9 latency impi
strongest_row everywhere strongest_latency/others 1.0 latency openmpi mpich
strongest_row mean strongest_latency 1.0 latency
