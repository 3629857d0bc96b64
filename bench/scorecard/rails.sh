# Hosts of network namespaces: two links against one over each transport, tcp on a link as fast as the kernel makes it, and what survivors
# hear when a host or a link dies. SHORT=1: the links alone.
source bench/scorecard/lib/row.sh

if ! unshare -n true 2>/dev/null; then
  row rails "several links, and their end" "measured" "not measured: no network namespaces here" false
  exit 0
fi

# time_us TRANSPORT LINKS COLLECTIVE: of 64 MiB between two hosts; links of 1 Gbit/s
time_us() {
  SINEW_TRANSPORTS=$1 SINEW_OFI_PROVIDER="tcp;ofi_rxm" tests/hosts/run.sh --launcher "$PWD/$bin/sinew-run" --ranks 1,1 --links "$2" --rate 1gbit \
    "$PWD/$bin/sinew-bench" "$3" -b 64MiB -e 64MiB -n 5 -w 1 --json "$scratch/line" >&2
  jq -s '.[0] | if .wrong == 0 then .time_us else error("wrong results") end' "$scratch/line"
  rm "$scratch/line"
}
for transport in tcp ucx ofi; do
  if [ $transport != tcp ] && [ ! -e build/release/lib/sinew-modules/sinew_$transport.so ]; then
    row "rails_$transport" "two links against one over $transport" "measured" "not measured: the module is not built" false
    continue
  fi
  for collective in all_reduce sendrecv; do
    one=$(time_us $transport 1 $collective)
    two=$(time_us $transport 2 $collective)
    row "rails_${transport}_$collective" "$collective of 64 MiB over $transport, two hosts: time with one link of 1 Gbit/s / with two" ">= 1.9" \
      "$(jq -nr "\"\($one / $two * 1000 | round / 1000) (\($one / 1000 | round) ms, \($two / 1000 | round) ms)\"")" "$(jq -n "$one / $two >= 1.9")"
  done
done
if [ -n "${SHORT:-}" ]; then exit 0; fi
export SINEW_TRANSPORTS=tcp

# In turns in the same two processes.
(
  source tests/hosts/namespaces.sh
  make_hosts 2
  on 1 "$bin/tcp_loop" --join "$(address 0):29700" & joined=$!
  on 0 "$bin/tcp_loop" --serve "$(address 0):29700" --json "$scratch/loop" >&2
  wait $joined
)
row tcp_veth "64 MiB between two hosts: bare blocking send/recv loop's time / tcp's" ">= 0.9" \
  "$(jq -r '.ratio * 1000 | round / 1000' "$scratch/loop")" "$(jq '.ratio >= 0.9' "$scratch/loop")"

# One of two links goes while sums run over both.
(
  source tests/hosts/namespaces.sh
  make_hosts 2 2 1gbit
  on_all "$PWD/$bin/sinew-run" 1,1 "$PWD/$bin/sinew-bench" all_reduce -b 64MiB -e 64MiB -n 30 -w 1 --json "$scratch/line" 2>"$scratch/log" >&2 &
  job=$!
  sleep 5
  ip -n "$name-0" link set link0 down
  wait $job || true
)
cat "$scratch/log" >&2
lines=$(grep -c 'warning: tcp: the rail from .* is lost' "$scratch/log" || true)
wrong=$(jq -s '.[0].wrong // "no"' "$scratch/line" || true)
row rail_down "all_reduces of 64 MiB over two links, one of which goes down: wrong results, lines in the logs of two ranks" "0, 2" \
  "$wrong, $lines" "$(jq -n "${wrong:-1} == 0 and $lines == 2")"

# end_row NAME WHAT LIMIT LINKS COMMAND: three hosts with two ranks each work; COMMAND ends the last host
end_row() {
  local row=$1 what=$2 limit=$3 links=$4 heard worst
  (
    source tests/hosts/namespaces.sh
    make_hosts 3 "$links"
    last=$name-2
    on_all "$PWD/$bin/sinew-run" 2,2,2 "$PWD/$bin/survivors" --victim -1 --stamp "$scratch/stamp" >"$scratch/said" & job=$!
    sleep 3
    cut -d ' ' -f 1 /proc/uptime >"$scratch/stamp"
    "$5"
    # Those who were cut off hear it as well, but nobody hears them.
    for ((i = 0; i < 200; ++i)); do
      [ "$(grep -c '^\[[0-3]\] {' "$scratch/said")" -lt 4 ] || break
      sleep 0.1
    done
    ip netns pids "$last" | xargs -r kill -9
    wait $job || true
  ) >&2
  sed -n 's/^\[[0-3]\] {/{/p' "$scratch/said" >"$scratch/heard"
  heard=$(jq -s 'map(select(.code == "PeerLost" and (.lost == 4 or .lost == 5))) | length' "$scratch/heard")
  worst=$(jq -s 'map(.seconds) | max // 1000 | . * 1000 | round / 1000' "$scratch/heard")
  row "$row" "$what: survivors that named a rank there, of four on two other hosts, and the last one's time" "4, within $limit s" \
    "$heard, $worst s" "$(jq -n "$heard == 4 and $worst <= $limit")"
}
kill_host() { ip netns pids "$last" | xargs -r kill -9; }
cut_links() {
  local link
  for link in $(ip -n "$last" -o link show up | sed -n 's/^[0-9]*: \(link[0-9]*\)@.*/\1/p'); do
    ip -n "$last" link set "$link" down
  done
}
end_row host_killed "one of three hosts killed, two links" 2 2 kill_host
end_row link_down "the only link of one of three hosts down" 10 1 cut_links
end_row links_down "both links of one of three hosts down" 10 2 cut_links
