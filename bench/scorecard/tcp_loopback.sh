# tcp on loopback against a bare blocking loop, same buffers, in turns in the same two processes.
source bench/scorecard/lib/row.sh

"$bin/tcp_loop" --bytes 64MiB --rounds 21 --json "$scratch/loop" >&2
row tcp_loopback "64 MiB over loopback: bare blocking send/recv loop's time / tcp's" ">= 0.9" \
  "$(jq -r '.ratio * 1000 | round / 1000' "$scratch/loop")" "$(jq '.ratio >= 0.9' "$scratch/loop")"
