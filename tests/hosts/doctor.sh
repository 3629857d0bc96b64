#!/usr/bin/env bash
# doctor.sh CASE SINEW_RUN SINEW_INFO: lets sinew-info doctor examine hosts of which something is wrong, and judges what it says. The hosts
# are network namespaces of this machine. Needs root. Exit code 77: no namespaces here, or not what the case needs.
set -euo pipefail
case=$1 run=$2 info=$3
# shellcheck source=tests/hosts/namespaces.sh
source "$(dirname -- "$0")/namespaces.sh"

# way FROM TO [LINK]: as the doctor writes it.
way() { echo "$name-$1 link${3:-0} ($(address "$1" "${3:-0}")) -> $name-$2 link${3:-0} ($(address "$2" "${3:-0}"))"; }

# examine RANKS CODE TEXT..: the doctor must end with this code and say each of these.
examine() {
  local ranks=$1 code=$2 output status=0 text
  shift 2
  output=$(on_all "$run" "$ranks" "$info" doctor 2>&1) || status=$?
  echo "$output"
  if [ "$status" -ne "$code" ]; then
    echo "doctor.sh $case: exit code $status, expected $code" >&2
    exit 1
  fi
  for text in "$@"; do
    if ! grep -qF -- "$text" <<<"$output"; then
      echo "doctor.sh $case: expected it to say '$text'" >&2
      exit 1
    fi
  done
}

case $case in
  two_hosts)
    make_hosts 2 1 400mbit
    examine 2,1 0 "3 ranks on $name-0, $name-1" "ok     link: 2 ways carry" "ok     clock: at most" "ok: 0 would fail"
    ;;
  three_hosts)
    make_hosts 3 2 400mbit
    examine 1,1,2 0 "ok     link: 12 ways carry" "ok: 0 would fail"
    ;;
  slow)
    make_hosts 3 1 400mbit
    on 2 tc qdisc replace dev link0 root tbf rate 40mbit burst 64k latency 50ms
    examine 1,1,1 0 "warns  link: $(way 2 0): " "warns  link: $(way 2 1): " "the median of its network's 6 ways is"
    ;;
  down) # one of two networks
    make_hosts 2 2
    on 1 ip link set link1 down
    examine 1,1 0 "warns  interface: link1 ($(address 1 1)) is down" "ip link set link1 up"
    ;;
  cut_off) # the only network, and with it the way to rank 0: nobody can be asked, and nobody waits for ever
    make_hosts 2
    on 1 ip link set link0 down
    SINEW_TIMEOUT=4s examine 1,1 1 "sinew-info: " "every host must reach the one of rank 0"
    ;;
  blackhole)
    make_hosts 3
    on 1 ip route add blackhole "$(address 2)/32"
    examine 1,1,1 1 "fails  link: $(way 1 2): " "a route leads nowhere" "fails  link: $(way 2 1): no answer"
    ;;
  firewall) # host 1 drops what comes from host 2 to the ports that all listen on, and connects to it
    make_hosts 3
    on 1 ip rule add pref 10 lookup local
    on 1 ip rule del pref 0
    on 1 ip rule add pref 5 from "$(address 2)" iif link0 ipproto tcp dport 29700-29739 blackhole ||
      { echo "no rules for ports here"; exit 77; }
    SINEW_PORTS=29700-29739 examine 1,1,1 1 "fails  link: $(way 2 1): no answer; the way back works" "a firewall"
    ;;
  mtu) # a switch of the second network loses what a port is too small for; no sender leaves the cutting to its card
    make_hosts 3 2
    for host in 0 1 2; do
      on "$host" ip link set link1 gso_max_segs 1 || { echo "no limit of segments here"; exit 77; }
    done
    ip -n "$name-net1" link set port1 mtu 1400
    lost="short messages pass, long ones do not: packets of the MTU (1500) are lost, those of 1400 arrive"
    examine 1,1,1 0 "warns  link: $(way 0 1 1): $lost; another network joins the two" "warns  link: $(way 1 2 1): $lost" \
      "ip link set link1 mtu 1400"
    ;;
  *) echo "doctor.sh: no case '$case'" >&2; exit 2 ;;
esac
