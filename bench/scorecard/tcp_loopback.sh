# tcp on loopback against a bare blocking loop, same buffers, in turns in the same two processes.
source bench/scorecard/lib/row.sh

"$bin/tcp_loop" --bytes 64MiB --rounds 21 --json "$scratch/loop" >&2
row tcp_loopback "64 MiB over loopback: bare blocking send/recv loop's time / tcp's" ">= 0.9" \
  "$(jq -r '.ratio * 1000 | round / 1000' "$scratch/loop")" "$(jq '.ratio >= 0.9' "$scratch/loop")"

# Shown, not judged: what a program that only measures sockets reaches here.
port=$((20000 + RANDOM % 20000))
iperf3 --server --one-off --port $port >/dev/null 2>&1 &
server=$!
for _ in 1 2 3 4 5 6 7 8 9 10; do
  sleep 0.2
  if iperf3 --client 127.0.0.1 --port $port --time 3 --json >"$scratch/iperf3" 2>/dev/null; then break; fi
done
kill $server 2>/dev/null || true
row tcp_iperf3 "iperf3 over loopback, one stream; tcp in the row above; GB/s" "shown" \
  "$(jq -r '.end.sum_received.bits_per_second / 8e7 | round / 100' "$scratch/iperf3"); \
$(jq -r '.bytes / .tcp_us / 10 | round / 100' "$scratch/loop")" true
