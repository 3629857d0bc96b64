# ucx against the tool that UCX brings for its active messages, over the same transports of UCX, in turns: what the
# transport costs on top. Medians over the turns; both send the same memory over and over, theirs in one long batch.
source bench/scorecard/lib/row.sh

turns=9

# perftest TEST BYTES ITERATIONS COLUMN: one of the figures that ucx_perftest prints, in us per message:
# 2 is the median of a latency, 4 the mean over the whole run
perftest() {
  local port=$((20000 + RANDOM % 20000)) server try
  ucx_perftest -p $port >/dev/null 2>&1 &
  server=$!
  for try in 1 2 3 4 5 6 7 8 9 10; do
    sleep 0.2
    if timeout 60 ucx_perftest 127.0.0.1 -p $port -t "$1" -s "$2" -n "$3" -w 1000 -f -v >"$scratch/perftest" 2>/dev/null; then break; fi
  done
  kill $server 2>/dev/null || true
  wait $server 2>/dev/null || true
  tail -n 1 "$scratch/perftest" | cut -d , -f "$4"
}

# ours WHAT BYTES ITERATIONS: us per message
ours() {
  sinew_run -n 2 "$bin/sinew-bench" "$1" -b "$2" -e "$2" -n "$3" --transport ucx --warm-buffers --batch 20ms --json - >"$scratch/line"
  cat "$scratch/line" >>"$scratch/lines"
  jq -r 'select(.time_us) | .time_us' "$scratch/line"
}

# in_turns TEST WHAT BYTES ITERATIONS COLUMN: sets theirs, mine (medians) and note
in_turns() {
  local turn
  : >"$scratch/theirs" >"$scratch/mine" >"$scratch/lines"
  for ((turn = 0; turn < turns; ++turn)); do
    perftest "$1" "$3" "$4" "$5" >>"$scratch/theirs"
    ours "$2" "$3" "$4" >>"$scratch/mine"
  done
  theirs=$(jq -s 'sort | .[length / 2 | floor]' "$scratch/theirs")
  mine=$(jq -s 'sort | .[length / 2 | floor]' "$scratch/mine")
  note=$(spoilt "$scratch/lines")
}

# rows_over NAME-SUFFIX UCX_TLS
rows_over() {
  export UCX_TLS=$2
  local overhead
  in_turns ucp_am_lat latency 8 50000 2
  overhead=$(jq -n "($mine - $theirs) * 1000 | round / 1000")
  row "ucx_latency$1" "8 B one way over UCX_TLS=$2: ucx - ucx_perftest's ucp_am_lat, us" "<= 0.5" \
    "$(with_note "$overhead: $mine - $theirs" "$note")" "$(jq -n "$overhead <= 0.5 and $([ -z "$note" ] && echo true || echo false)")"
  in_turns ucp_am_bw bandwidth 1048576 2000 4
  overhead=$(jq -n "$mine / $theirs * 1000 | round / 1000")
  row "ucx_bandwidth$1" "1 MiB after 1 MiB over UCX_TLS=$2: ucx's time / ucx_perftest's ucp_am_bw" "<= 1.1" \
    "$(with_note "$overhead: $mine us / $theirs us" "$note")" "$(jq -n "$overhead <= 1.1 and $([ -z "$note" ] && echo true || echo false)")"
}

rows_over "" posix,cma,self
rows_over _tcp tcp,self
