# Hosts made of network namespaces of this machine; source it. Needs root. All goes when the shell that sourced it exits.
#
#   make_hosts COUNT [LINKS [RATE]]   hosts 0.., each with so many links (1) into as many networks, shaped to RATE (2gbit);
#                                     exit code 77, with the reason, where there can be none
#   relay_hosts RELAY [OPTION..]      hosts 0 and 1, joined by the program RELAY (tests/hosts/relay) with these options. $relayed is
#                                     its process and $folder/relay what it prints; exit code 77, with the reason, as above
#   limit_window HOST BYTES           no connection of this host has more under way than so much
#   address HOST [LINK]               of a host in a network
#   on HOST COMMAND..                 runs there, with its own network and host name
#   on_all LAUNCHER RANKS PROGRAM..   runs a job on them; RANKS: of each host, with commas; LAUNCHER: the file of a sinew-run, or
#                                     mpirun.openmpi or mpirun.mpich
#   $rsh                              a program that takes ADDRESS COMMAND.. as ssh does

folder=$(mktemp -d)
name=sinew$$
rsh=$folder/rsh
made=()
relayed=
# end_processes NAMESPACE: those that a failed test has left there
end_processes() {
  local processes
  processes=$(ip netns pids "$1" 2>/dev/null) || return 0
  # shellcheck disable=SC2086
  if [ -n "$processes" ]; then kill -9 $processes 2>/dev/null || true; fi
}
remove_hosts() {
  local host
  if [ -n "$relayed" ]; then kill -9 "$relayed" 2>/dev/null || true; fi
  for host in "${made[@]}"; do end_processes "$host"; done
  for host in "${made[@]}"; do ip netns del "$host" 2>/dev/null || true; done
  rm -rf "$folder"
}
trap remove_hosts EXIT

# Each host has a core of its own, as far as there are as many: none believes that it has them all.
core_of() {
  local part cores=()
  for part in $(sed -n 's/^Cpus_allowed_list:\t//p' /proc/self/status | tr ',' ' '); do
    mapfile -t -O ${#cores[@]} cores < <(seq "${part%-*}" "${part#*-}")
  done
  echo "${cores[$1 % ${#cores[@]}]}"
}
address() { echo "10.213.$((7 + ${2:-0})).$((1 + $1))"; }
on() {
  local host=$1
  shift
  taskset -c "$(core_of "$host")" ip netns exec "$name-$host" unshare -u sh -c 'hostname "$0"; exec "$@"' "$name-$host" "$@"
}

add_namespace() {
  ip netns add "$1" 2>/dev/null || { echo "no network namespaces here"; exit 77; }
  made+=("$1")
  ip -n "$1" link set lo up
}

# shape NAMESPACE DEVICE RATE: what leaves by it
shape() {
  if [ -n "$3" ]; then ip netns exec "$1" tc qdisc add dev "$2" root tbf rate "$3" burst 256k latency 50ms; fi
}

# What a link gives must not hang on the machine's default: BBR takes a token bucket's first packets for its round trip
# and then sends in bursts with pauses. A namespace may not set its own default, its routes may.
use_cubic() { ip -n "$1" route change "$2" dev "$3" congctl lock cubic; }

# The kernel says that a link is up as much as a second after packets flow, and UCX looks for it.
wait_for_link() {
  local tries
  for ((tries = 0; tries < 100; ++tries)); do
    if ip -n "$1" -br link show "$2" | grep -q ' UP '; then return; fi
    sleep 0.05
  done
}

# Two hosts are joined by wire, more by a bridge in a namespace of its own.
add_link() {
  local link=$1 count=$2 rate=$3 host device=link$1 bridge
  if [ "$count" -eq 2 ]; then
    ip link add "$device" netns "$name-0" type veth peer name "$device" netns "$name-1"
  else
    bridge=$name-net$link
    add_namespace "$bridge"
    ip -n "$bridge" link add bridge type bridge
    ip -n "$bridge" link set bridge up
    for ((host = 0; host < count; ++host)); do
      ip link add "$device" netns "$name-$host" type veth peer name "port$host" netns "$bridge"
      ip -n "$bridge" link set "port$host" master bridge up
      shape "$bridge" "port$host" "$rate"
    done
  fi
  for ((host = 0; host < count; ++host)); do
    ip -n "$name-$host" addr add "$(address "$host" "$link")/24" dev "$device"
    ip -n "$name-$host" link set "$device" up
    use_cubic "$name-$host" "$(address -1 "$link")/24" "$device"
    shape "$name-$host" "$device" "$rate"
  done
  for ((host = 0; host < count; ++host)); do wait_for_link "$name-$host" "$device"; done
}

make_hosts() {
  local count=$1 links=${2:-1} rate=${3:-} host link
  command -v ip >/dev/null || { echo "iproute2 is not installed"; exit 77; }
  for ((host = 0; host < count; ++host)); do add_namespace "$name-$host"; done
  for ((link = 0; link < links; ++link)); do add_link "$link" "$count" "$rate"; done
  {
    echo '#!/bin/sh'
    # shellcheck disable=SC2016
    echo 'while [ "${1#-}" != "$1" ]; do shift; done'
    echo 'case $1 in'
    for ((host = 0; host < count; ++host)); do echo "  $(address "$host")) host=$name-$host core=$(core_of "$host") ;;"; done
    # shellcheck disable=SC2016
    printf '%s\n' '  *) echo "no host $1" >&2; exit 255 ;;' esac shift \
      'exec taskset -c $core ip netns exec $host unshare -u sh -c "hostname $host; $*"'
  } >"$rsh"
  chmod +x "$rsh"
}

relay_hosts() {
  local relay=$1 status=0 host
  shift
  make_hosts 2 0
  "$relay" "$name-0=$(address 0)" "$name-1=$(address 1)" "$@" >"$folder/relay" &
  relayed=$!
  while kill -0 $relayed 2>/dev/null && ! grep -qs limit "$folder/relay"; do sleep 0.05; done
  if ! grep -q limit "$folder/relay"; then
    wait $relayed || status=$?
    cat "$folder/relay"
    exit $status
  fi
  for host in 0 1; do use_cubic "$name-$host" "$(address -1)/24" link0; done
}

limit_window() { on "$1" sysctl -q "net.ipv4.tcp_wmem=4096 65536 $2" "net.ipv4.tcp_rmem=4096 65536 $2"; }

on_all() {
  local launcher=$1 host place hosts='' total=0 here
  IFS=, read -r -a here <<<"$2"
  shift 2
  for host in "${!here[@]}"; do
    if [ "$host" -eq 0 ]; then place=localhost; else place=$(address "$host"); fi
    hosts+=${hosts:+,}$place:${here[host]}
    total=$((total + here[host]))
  done
  case $launcher in
    *sinew-run) SINEW_RSH=$rsh on 0 "$launcher" --on-failure continue --hosts "$hosts" "$@" ;;
    *mpirun.openmpi)
      OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 on 0 "$launcher" --oversubscribe -mca plm_rsh_agent "$rsh" \
        -mca oob_tcp_if_include "$(address 0)/24" -mca btl_tcp_if_include "$(address 0)/24" --host "$hosts" -n "$total" "$@"
      ;;
    *mpirun.mpich)
      hosts=${hosts/localhost/$(address 0)}
      on 0 "$launcher" -launcher ssh -launcher-exec "$rsh" -iface link0 -hosts "$hosts" -n "$total" "$@"
      ;;
    *) echo "on_all: launcher '$launcher': expected sinew-run, mpirun.openmpi or mpirun.mpich" >&2; return 2 ;;
  esac
}
