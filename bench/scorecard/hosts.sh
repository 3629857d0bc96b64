# Collectives of 64 MiB between hosts, which are network namespaces joined by shaped links or by links as fast as the kernel makes them:
# the share of the link that the collective's own bytes take. The link's rate is what iperf3 moves on the same hosts just before, over all
# links and both directions at once. SHORT=1: a few of the rows, with fewer calls.
source bench/scorecard/lib/row.sh
source bench/scorecard/lib/hosts.sh
need_hosts hosts "collectives between hosts"

bytes=$((64 << 20))
calls=5
if [ -n "${SHORT:-}" ]; then calls=2; fi

# shares HOSTS RATE CASE..: for each case, COLLECTIVE/RANKS, a line {collective, ranks, share, wrong, algorithm}; RATE may be empty
shares() {
  local count=$1 rate=$2 case collective ranks
  shift 2
  (
    source tests/hosts/namespaces.sh
    make_hosts "$count" 1 "$rate"
    limit=$(link_rate "$count")
    for case in "$@"; do
      collective=${case%/*} ranks=${case#*/}
      on_all "$PWD/$bin/sinew-run" "$ranks" "$PWD/$bin/sinew-bench" "$collective" -b $bytes -e $bytes -n $calls -w 1 --json "$scratch/line" >&2
      jq -sc --argjson limit "$limit" --argjson crossing "$(crossing "$collective" "$ranks")" --arg collective "$collective" --arg ranks "$ranks" \
        '.[0] | {$collective, $ranks, share: ($crossing * .bytes / (.time_us * 1e-6) / $limit), wrong, algorithm, $limit}' "$scratch/line"
      rm "$scratch/line"
    done
  )
}

# hosts_rows PREFIX MUST LINKS HOSTS RATE CASE..: a row for each case. LINKS: what joins the hosts, in words
hosts_rows() {
  local prefix=$1 must=$2 links=$3 line
  shift 3
  shares "$@" >"$scratch/shares"
  while read -r line; do
    row "${prefix}_$(jq -r '.collective + "_" + (.ranks | gsub(","; "_"))' <<<"$line")" \
      "$(jq -r '.collective + " of 64 MiB, " + .ranks' <<<"$line") ranks on hosts joined by $links: what must cross, of the rate of iperf3 over all links at once" \
      ">= $must %" \
      "$(jq -r '"\(.share * 1000 | round / 10) % of \(.limit / 1e6 | round) MB/s, \(.algorithm)" + (if .wrong > 0 then ", \(.wrong) wrong" else "" end)' <<<"$line")" \
      "$(jq --argjson must "$must" '.wrong == 0 and .share * 100 >= $must' <<<"$line")"
  done <"$scratch/shares"
}

# all_reduces HOSTS: cases of an all_reduce with 1 to 4 ranks on each
all_reduces() {
  local ranks
  for ranks in 1 2 3 4; do echo "all_reduce/$(each_host "$1" "$ranks")"; done
}

# int8_row NAME MUST: how many times as fast a sum is when its messages are coded, over the same link one after the other
int8_row() {
  local found
  found=$(
    source tests/hosts/namespaces.sh
    make_hosts 2 1 2gbit
    for codec in none int8; do
      on_all "$PWD/$bin/sinew-run" 1,1 "$PWD/$bin/sinew-bench" all_reduce -b $bytes -e $bytes -n $calls -w 1 --codec $codec \
        --json "$scratch/$codec" >&2
    done
    jq -s '{times: (.[0].time_us / .[1].time_us), wrong: (map(.wrong) | add), ways: (map(.algorithm) | join(", int8 "))}' \
      "$scratch/none" "$scratch/int8"
  )
  row "$1" "all_reduce of 64 MiB, 1,1 ranks on hosts joined by 2 Gbit/s: int8 messages, times as fast as f32" ">= $2" \
    "$(jq -r '"\(.times * 100 | round / 100), f32 \(.ways)" + (if .wrong > 0 then ", \(.wrong) wrong" else "" end)' <<<"$found")" \
    "$(jq --argjson must "$2" '.wrong == 0 and .times >= $must' <<<"$found")"
}

others="all_gather reduce_scatter all_to_all"
if [ -n "${SHORT:-}" ]; then
  hosts_rows hosts 95 "2 Gbit/s" 2 2gbit all_reduce/1,1 all_reduce/3,1
  hosts_rows hosts 95 "1 Gbit/s" 3 1gbit all_reduce/1,1,1
  hosts_rows hosts_unshaped 90 "links of no set rate" 2 "" sendrecv/1,1
  exit 0
fi
# shellcheck disable=SC2046,SC2086
{
  hosts_rows hosts 95 "2 Gbit/s" 2 2gbit $(all_reduces 2) $(printf '%s/2,2 ' $others) all_reduce/3,1 $(printf '%s/3,1 ' $others)
  hosts_rows hosts 95 "1 Gbit/s" 3 1gbit $(all_reduces 3) $(printf '%s/2,2,2 ' $others) all_reduce/1,2,3 all_reduce/3,1,1
  hosts_rows hosts 95 "1 Gbit/s" 5 1gbit $(all_reduces 5) all_to_all/1,1,1,1,1 all_gather/1,1,1,1,1
  hosts_rows hosts_unshaped 90 "links of no set rate" 2 "" sendrecv/1,1 all_reduce/1,1 all_gather/1,1 all_to_all/1,1
}
int8_row hosts_int8_all_reduce 3
