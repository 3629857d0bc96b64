# ofi over tcp;ofi_rxm on loopback beside libfabric's own fi_pingpong, in turns, medians of nine. Both keep to the same
# buffers, so that what differs is what the library adds.
source bench/scorecard/lib/row.sh

provider="tcp;ofi_rxm"
turns=9

# pingpong BYTES CALLS: microseconds, one way
pingpong() {
  local port=$((20000 + RANDOM % 20000)) server
  timeout 60 fi_pingpong -e rdm -p "$provider" -B "$port" -S "$1" -I "$2" >/dev/null &
  server=$!
  sleep 0.5
  timeout 60 fi_pingpong -e rdm -p "$provider" -P "$port" -S "$1" -I "$2" 127.0.0.1 | awk '{ us = $7 } END { print us }'
  wait $server
}

# ours BYTES: microseconds, one way; the line is kept
ours() {
  SINEW_OFI_PROVIDER=$provider sinew_run -n 2 "$bin/sinew-bench" latency --transport ofi --warm-buffers --batch 20ms -b "$1" -e "$1" \
    --json - | tee -a "$scratch/lines" | jq -r '.time_us'
}

# in_turns BYTES CALLS: sets theirs_us and ours_us
in_turns() {
  local turn
  : >"$scratch/theirs"
  : >"$scratch/ours"
  : >"$scratch/lines"
  for ((turn = 0; turn < turns; ++turn)); do
    pingpong "$1" "$2" >>"$scratch/theirs"
    ours "$1" >>"$scratch/ours"
  done
  theirs_us=$(jq -s 'sort | .[length / 2 | floor]' "$scratch/theirs")
  ours_us=$(jq -s 'sort | .[length / 2 | floor]' "$scratch/ours")
}

# ofi_row NAME WHAT MUST HOLDS: HOLDS is jq's judgement of $ours and $theirs
ofi_row() {
  local bad holds
  bad=$(spoilt "$scratch/lines")
  holds=$(jq -n --argjson ours "$ours_us" --argjson theirs "$theirs_us" "$4")
  row "$1" "$2" "$3" "$(with_note "$(jq -nr --argjson ours "$ours_us" --argjson theirs "$theirs_us" \
    '"\($ours * 100 | round / 100) us, \($theirs * 100 | round / 100) us"')" "$bad")" \
    "$(jq -n --arg bad "$bad" --argjson holds "$holds" '$holds and $bad == ""')"
}

if [ ! -e build/release/lib/sinew-modules/sinew_ofi.so ] || ! command -v fi_pingpong >/dev/null; then
  row ofi_latency "ofi beside fi_pingpong" "measured" "not measured: libfabric or fi_pingpong is not installed" false
  exit 0
fi
in_turns 8 20000
ofi_row ofi_latency "8 B one way over $provider: ofi, fi_pingpong" "at most 0.5 us more" '$ours - $theirs <= 0.5'
in_turns 1048576 1000
ofi_row ofi_bandwidth "1 MiB one way over $provider: ofi, fi_pingpong" "at most 10 % more" '$ours <= 1.1 * $theirs'
