#!/usr/bin/env bash
# doctor.sh CASE SINEW_RUN SINEW_INFO: lets sinew-info doctor examine hosts of which something is wrong, and judges what it says. The hosts
# are network namespaces of this machine. Needs root. Exit code 77: no namespaces here, or not what the case needs.
set -euo pipefail
case=$1 run=$2 info=$3
# shellcheck source=tests/hosts/namespaces.sh
source "$(dirname -- "$0")/namespaces.sh"

# The way from one host to the other, as the doctor writes it.
way() { echo "$name-$1 link0 ($(address "$1")) -> $name-$2 link0 ($(address "$2"))"; }

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
  cut_off) # the only network
    make_hosts 2
    on 1 ip link set link0 down
    examine 1,1 1 "fails  link: $name-0 and $name-1 have no interfaces" "link0 ($(address 1)) is down"
    ;;
  blackhole)
    make_hosts 2
    on 0 ip route add blackhole "$(address 1)/32"
    examine 1,1 1 "fails  link: $(way 0 1): " "a route leads nowhere" "fails  link: $(way 1 0): no answer"
    ;;
  firewall) # host 0 drops what comes to the ports that all listen on, and connects to others
    make_hosts 2
    on 0 ip rule add pref 10 lookup local
    on 0 ip rule del pref 0
    on 0 ip rule add pref 5 iif link0 ipproto tcp dport 29700-29739 blackhole || { echo "no rules for ports here"; exit 77; }
    SINEW_PORTS=29700-29739 examine 1,1 1 "fails  link: $(way 1 0): no answer; the way back works" "a firewall"
    ;;
  mtu) # a switch that loses what its own port is too small for, and packets that leave as long as the sender makes them
    make_hosts 3
    for host in 0 1 2; do
      on "$host" ip link set link0 gso_max_segs 1 || { echo "no limit of segments here"; exit 77; }
    done
    ip -n "$name-net0" link set port1 mtu 1400
    examine 1,1,1 1 "fails  link: $(way 0 1): short messages pass, long ones do not: packets of the MTU (1500) are lost, those of 1400 arrive" \
      "fails  link: $(way 1 2): " "ip link set link0 mtu 1400"
    ;;
  *) echo "doctor.sh: no case '$case'" >&2; exit 2 ;;
esac
