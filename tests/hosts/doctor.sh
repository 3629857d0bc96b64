#!/usr/bin/env bash
# doctor.sh CASE SINEW_RUN SINEW_INFO SINEW_BENCH: lets sinew-info doctor examine hosts of which something is wrong, and judges what it
# says; where it is no more than a warning, a job must run on them. The hosts are network namespaces of this machine. Needs root.
# Exit code 77: no namespaces here, or not what the case needs.
set -euo pipefail
case=$1 run=$2 info=$3 bench=$4
# shellcheck source=tests/hosts/namespaces.sh
source "$(dirname -- "$0")/namespaces.sh"

# end HOST [LINK], way FROM TO [LINK]: as the doctor writes them.
end() { echo "$name-$1 link${2:-0} ($(address "$1" "${2:-0}"))"; }
way() { echo "$(end "$1" "${3:-0}") -> $(end "$2" "${3:-0}")"; }

# black_out HOST LINK: of three hosts, this one sends nothing to the others by this link.
black_out() {
  local other
  for other in 0 1 2; do
    if [ "$other" -ne "$1" ]; then on "$1" ip route add blackhole "$(address "$other" "$2")/32"; fi
  done
}

wrong() {
  echo "doctor.sh $case: $1" >&2
  exit 1
}

# examine RANKS CODE TEXT..: the doctor must end with this code and say each of these.
program=("$info" doctor)
examine() {
  local ranks=$1 code=$2 status=0 text
  shift 2
  said=$(on_all "$run" "$ranks" "${program[@]}" 2>&1) || status=$?
  echo "$said"
  [ "$status" -eq "$code" ] || wrong "exit code $status, expected $code"
  for text in "$@"; do
    grep -qF -- "$text" <<<"$said" || wrong "expected it to say '$text'"
  done
}

# once [NAME]: what is wrong with links, or with those of NAME, it must have said in one finding.
once() {
  local count
  count=$(grep -E '(fails|warns)  link: ' <<<"$said" | grep -cF -- "${1:-}" || true)
  [ "$count" -eq 1 ] || wrong "$count findings about links ${1:-}, expected one"
}

# runs RANKS: a job must run there, with messages long enough for all rails, and sum them right.
job=("$bench" all_reduce -b 4MiB -e 4MiB -n 2 -w 1 -c 1 --transport tcp)
runs() { on_all "$run" "$1" "${job[@]}" || wrong "the job has failed"; }

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
    examine 1,1,1 0 "warns  link: $(end 2): all its 2 ways to other hosts are slow; $name-2 link0" \
      "MB/s at best of 4 tries, the median of its network's 6 ways is"
    once
    ;;
  down) # one of two networks
    make_hosts 2 2
    on 1 ip link set link1 down
    examine 1,1 0 "warns  interface: link1 ($(address 1 1)) is down" "ip link set link1 up"
    runs 1,1
    ;;
  dead_rail) # host 1 hears what comes to it over the second of two networks, and cannot answer
    make_hosts 3 2
    black_out 1 1
    examine 1,1,1 0 "warns  link: $(end 1 1): none of its 4 ways to and from other hosts carries: out of it Invalid argument; \
into it no answer; other networks join the hosts" "leave link1 out with SINEW_INTERFACE"
    once link1 # a busy machine may find one of the others slow
    runs 1,1,1
    ;;
  dead_host) # the same network, where it is the only one that the job may use
    make_hosts 3 2
    black_out 1 1
    program=(env SINEW_INTERFACE=link1 "${program[@]}")
    examine 1,1,1 1 "fails  link: $name-1: none of its 4 ways to and from other hosts carries"
    once "$name-1:" # as above
    if SINEW_TIMEOUT=5s on_all "$run" 1,1,1 env SINEW_INTERFACE=link1 "${job[@]}"; then
      wrong "a job runs all the same"
    fi
    ;;
  no_interface) # of the name that is set: control takes the others, messages have no way
    make_hosts 2
    program=(env SINEW_INTERFACE=nix SINEW_TRANSPORTS=tcp "${program[@]}")
    examine 1,1 1 "warns  interface: SINEW_INTERFACE=nix: no interface of that name is up here" "names interfaces that are up: here link0" \
      "ok     link: 2 ways carry" "fails  world: the ranks cannot form one: "
    if on_all "$run" 1,1 env SINEW_INTERFACE=nix "${job[@]}"; then wrong "a job runs all the same"; fi
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
    export SINEW_PORTS=29700-29739
    examine 1,1,1 0 "warns  link: $(way 2 1): no answer; the way back works, and tcp connects by it" "a firewall"
    runs 1,1,1
    ;;
  mtu) # a switch of the second network loses what a port is too small for; no sender leaves the cutting to its card
    make_hosts 3 2
    for host in 0 1 2; do
      on "$host" ip link set link1 gso_max_segs 1 || { echo "no limit of segments here"; exit 77; }
    done
    ip -n "$name-net1" link set port1 mtu 1400
    lost="short messages pass, long ones do not: packets of the MTU (1500) are lost, those of 1400 arrive"
    examine 1,1,1 0 "warns  link: $(end 1 1): none of its 4 ways to and from other hosts carries: $lost; other networks join" \
      "ip link set link1 mtu 1400"
    once link1 # a busy machine may find one of the others slow
    runs 1,1,1
    ;;
  *) echo "doctor.sh: no case '$case'" >&2; exit 2 ;;
esac
