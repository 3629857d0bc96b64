#!/usr/bin/env bash
# wrong_starts.sh CASE PROGRAMS: starts a job wrong on three hosts, and compares what its processes say within 30 s with the rows of the
# case in docs/places/wrong_starts.md. The hosts are namespaces of this machine. PROGRAMS: the folder of roll_call, sinew-run and
# sinew-info. Needs root. Exit code 77, with the reason, where there can be no such hosts.
#   list         prints the names of all cases
#   all          runs all cases, some at a time, and prints a line for each
#   quick:CASE   judges only processes that end
#   quick:CASE/OTHER   compares with the rows of another case
#   show:CASE    prints what the processes say, and judges nothing
# In the table a rank "ends" with one error, or "waits" and says one warning, or "works": the job's sums are right. sinew-run "fails" with
# a report of several lines. Whoever is not in the table says nothing. Two points (..) stand for any text.
set -euo pipefail
case=$1 programs=$(realpath -- "$2")
here=$(dirname -- "$(realpath -- "$0")")
table=$here/../../docs/places/wrong_starts.md
# rows CASE: who|what it does|what it says, of all cases where CASE is a pattern
rows() { sed -nE "s/^\| \`($1)\` \| [^|]* \| ([^|]*) \| ([a-z]+) \|(.*) \|$/\2|\3|\4/p" "$table"; }
# shellcheck disable=SC2016
cases() { sed -nE 's/^\| `([a-z0-9_]+)` \| .*/\1/p' "$table" | uniq; }

case $case in
  list)
    cases
    exit
    ;;
  all)
    results=$(mktemp -d)
    trap 'rm -rf "$results"' EXIT
    # shellcheck disable=SC2016
    cases | xargs -P 8 -I{} sh -c '"$0" {} "$1" >"$2/{}.out" 2>&1; echo $? >"$2/{}.code"' "$0" "$programs" "$results"
    failed=0
    for name in $(cases); do
      case $(cat "$results/$name.code") in
        0) echo "$name: as expected" ;;
        77) echo "$name: $(tail -n 1 "$results/$name.out")" ;;
        *) echo "$name: FAILED" && cat "$results/$name.out" && failed=1 ;;
      esac
    done
    exit $failed
    ;;
esac

# shellcheck source=tests/engines/machine.sh
source "$here/../engines/machine.sh"
# shellcheck source=tests/hosts/await.sh
source "$here/await.sh"
need_command nft nftables
enter_own_machine "$0" "$@"
mode=judge
if [[ $case == *:* ]]; then mode=${case%%:*} case=${case#*:}; fi
of_case=${case#*/} case=${case%/*}
start_hosts n0 n1 n2
export MASTER_ADDR=n0 MASTER_PORT=29600 WORLD_SIZE=3 OMP_NUM_THREADS=1
unset SINEW_TIMEOUT SINEW_SECRET_FILE
secret() { # NAME: a file with a secret
  (umask 077 && head -c 32 /dev/urandom >"$engines_home/$1")
}
secret secret
with_secret=(env "SINEW_SECRET_FILE=$engines_home/secret")
without_secret=(env)
n1=$(address 1) n2=$(address 2)

# start WHO HOST COMMAND..: a process of the job
declare -A process_of=()
start() {
  local who=$1 host=$2
  shift 2
  in_node "$host" "$@" >"$engines_home/says.$who" 2>&1 </dev/null &
  process_of[$who]=$!
}
# rank RANK COMMAND..: of the job, on the host of the same number; COMMAND precedes the program, such as env NAME=VALUE
rank() { start "$1" "$1" env RANK="$1" "${with_secret[@]}" "${@:2}" "$programs/roll_call"; }
# ranks NUMBER..: nothing is wrong with these
ranks() {
  local r
  for r in "$@"; do rank "$r"; done
}
both_here() { # COMMAND..: a job of two ranks on n0
  local r
  export WORLD_SIZE=2
  for r in 0 1; do start "$r" 0 env RANK=$r "${with_secret[@]}" "$@" "$programs/roll_call"; done
}
# second COMMAND..: two ranks of another job on n0 and n1, when the first one runs
first_job() {
  local r
  export WORLD_SIZE=2
  for r in 0 1; do start "first$r" $r env RANK=$r "${with_secret[@]}" "$programs/roll_call" --until-signal; done
  for r in 0 1; do await "the start of rank $r" "${process_of[first$r]}" grep -qs 'is process' "$engines_home/says.first$r"; done
  : >"$engines_home/says.first0"
  : >"$engines_home/says.first1"
}
second_job() {
  local r
  for r in 0 1; do start $r $r env RANK=$r "$@" "$programs/roll_call"; done
}
# silent PORT..: a program on n0 that listens there and says nothing
silent() {
  in_node 0 python3 -c 'import socket, sys, time
held = [socket.create_server(("", int(port))) for port in sys.argv[1:]]
print("listening", flush=True)
time.sleep(600)' "$@" >"$engines_home/silent" &
  await "the start of the silent program" $! grep -qs listening "$engines_home/silent"
}
is_connected() { [ -n "$(in_node "$1" ss -tnH state established "dport = :29600")" ]; } # HOST: to the store of the job
# own_hosts HOST LINE..: an /etc/hosts for this host alone
own_hosts() {
  { echo "127.0.0.1 localhost" && printf '%s\n' "${@:2}"; } >"$engines_home/hosts.$1"
  in_node "$1" mount --bind "$engines_home/hosts.$1" /etc/hosts
}
# libraries_with NEW OLD: sinew's libraries in a folder of their own, with other bytes in the core. Prints the folder.
libraries_with() {
  cp -a "$programs/../lib" "$engines_home/lib"
  python3 - "$engines_home/lib/$(basename "$(realpath "$programs/../lib/libsinew_core.so")")" "$1" "$2" <<'END_OF_PYTHON'
import sys
file, new, old = sys.argv[1], sys.argv[2].encode(), sys.argv[3].encode()
with open(file, "r+b") as library:
    data = library.read()
    assert old in data and len(old) == len(new), f"{file} has no {old}"
    library.seek(0)
    library.write(data.replace(old, new))
END_OF_PYTHON
  echo "$engines_home/lib"
}
# filter HOST RULE: of what comes to this host
filter() { in_node "$1" nft "add table ip wrong; add chain ip wrong in { type filter hook input priority 0; }; add rule ip wrong in $2"; }
# remote_shell LINE..: a program that takes HOST COMMAND.. as ssh does. Prints its file.
remote_shell() {
  { echo '#!/bin/sh' && printf '%s\n' "$@"; } >"$engines_home/rsh"
  chmod 755 "$engines_home/rsh"
  echo "$engines_home/rsh"
}
# shellcheck disable=SC2016
enters_host() {
  local host
  echo 'case $1 in'
  for host in 0 1 2; do echo "$(address $host)) node=${holder_of[host]} ;;"; done
  echo 'esac; shift; exec nsenter -n -u -m -t $node sh -c "$*"'
}
# sinew_run COMMAND..: starts it for a rank on each host
sinew_run() { start sinew-run 0 "$programs/sinew-run" --hosts "localhost:1,$n1:1,$n2:1" "$@"; }

case $case in
  nothing) ranks 0 1 2 ;;
  library_version)
    ranks 0 2
    rank 1 env LD_LIBRARY_PATH="$(libraries_with 0.1.9 0.1.0)"
    ;;
  protocol_version)
    ranks 0 2
    rank 1 env LD_LIBRARY_PATH="$(libraries_with sinew/2 sinew/1)"
    ;;
  protocol_of_rank_0)
    ranks 1 2
    rank 0 env LD_LIBRARY_PATH="$(libraries_with sinew/2 sinew/1)"
    ;;
  protocol_on_host)
    export WORLD_SIZE=2 MASTER_ADDR=localhost
    start 0 0 env RANK=0 "$programs/roll_call"
    start 1 0 env RANK=1 LD_LIBRARY_PATH="$(libraries_with sinew_u2 sinew_u1)" "$programs/roll_call"
    ;;
  two_jobs)
    first_job
    second_job "${with_secret[@]}"
    ;;
  two_jobs_two_secrets)
    first_job
    secret other
    second_job env "SINEW_SECRET_FILE=$engines_home/other"
    ;;
  other_user)
    first_job
    secret other
    chown 65534 "$engines_home/other"
    second_job env "SINEW_SECRET_FILE=$engines_home/other" setpriv --reuid=65534 --regid=65534 --clear-groups
    ;;
  wrong_secret)
    secret other
    ranks 0 2
    rank 1 env "SINEW_SECRET_FILE=$engines_home/other"
    ;;
  secret_missing)
    ranks 0 2
    rank 1 env "SINEW_SECRET_FILE=/run/no/secret"
    ;;
  secret_readable)
    install -m 644 "$engines_home/secret" /run/secret
    ranks 0 2
    rank 1 env "SINEW_SECRET_FILE=/run/secret"
    ;;
  no_secret)
    with_secret=("${without_secret[@]}")
    ranks 0 1 2
    ;;
  port_taken)
    silent 29600
    ranks 0 1 2
    ;;
  all_ports_taken)
    silent 29600 29601 29602 29603
    ranks 0 1 2
    ;;
  master_is_loopback) # as Debian writes it for a host without a fixed address
    own_hosts 0 "127.0.1.1 n0" "$n1 n1" "$n2 n2"
    ranks 0 1 2
    ;;
  master_is_loopback_elsewhere)
    own_hosts 1 "127.0.1.1 n0"
    ranks 0 1 2
    ;;
  master_is_another_host)
    export MASTER_ADDR=$n1
    ranks 0 1 2
    ;;
  name_comes_late)
    own_hosts 1
    ranks 0 1 2
    sleep 3
    echo "$(address 0) n0" >>"$engines_home/hosts.1"
    ;;
  name_never_comes)
    own_hosts 1
    ranks 0 1 2
    ;;
  host_down)
    export MASTER_ADDR=10.213.7.99
    ranks 1 2
    ;;
  no_route)
    in_node 1 ip route add unreachable "$(address 0)/32"
    ranks 0 1 2
    ;;
  firewall_drops)
    filter 0 "ip saddr $n1 tcp dport 29600-29603 drop"
    ranks 0 1 2
    ;;
  firewall_rejects)
    filter 0 "ip saddr $n1 tcp dport 29600-29603 reject with tcp reset"
    ranks 0 1 2
    ;;
  others_unreachable) # but for n0
    filter 1 "ip saddr $n2 drop"
    filter 2 "ip saddr $n1 drop"
    ranks 0 1 2
    ;;
  mtu) # a switch loses what is longer than its port takes; no sender leaves the cutting to its card
    for host in 0 1 2; do in_node $host ip link set link0 gso_max_segs 1 || skip "no limit of segments here"; done
    ip -n "$name-net0" link set port1 mtu 1400
    ranks 0 1 2
    ;;
  clock)
    ranks 0 2
    rank 1 env LD_PRELOAD="$(realpath "$programs/../fakes/libjumping_clock.so")" FAKE_CLOCK_AHEAD_S=3600
    ;;
  no_ucx)
    ldconfig -p | grep -q libucp.so.0 || skip "UCX is not installed"
    for library in $(ldconfig -p | sed -nE 's/.* (.*lib(ucp|uct|ucs)\.so\.0)$/\1/p'); do in_node 1 mount --bind /dev/null "$library"; done
    ranks 0 1 2
    ;;
  no_ucx_but_asked)
    ldconfig -p | grep -q libucp.so.0 || skip "UCX is not installed"
    for library in $(ldconfig -p | sed -nE 's/.* (.*lib(ucp|uct|ucs)\.so\.0)$/\1/p'); do in_node 1 mount --bind /dev/null "$library"; done
    export SINEW_TRANSPORTS=shm,ucx
    ranks 0 1 2
    ;;
  transports_differ)
    ranks 0 2
    rank 1 env SINEW_TRANSPORTS=shm
    ;;
  interface)
    for host in 0 2; do in_node $host sh -c 'ip link set link0 down && ip link set link0 name eth7 && ip link set eth7 up'; done
    export SINEW_INTERFACE=eth7
    ranks 0 1 2
    ;;
  world_size)
    ranks 0 1
    rank 2 env WORLD_SIZE=4
    ;;
  rank_twice)
    ranks 0 1
    await "a connection of rank 1" "${process_of[1]}" is_connected 1
    start 2 2 env RANK=1 "${with_secret[@]}" "$programs/roll_call"
    ;;
  rank_missing)
    ranks 0 1
    start 2 2 "${with_secret[@]}" "$programs/roll_call"
    ;;
  local_world_size_too_large)
    ranks 0 1
    rank 2 env LOCAL_WORLD_SIZE=4
    ;;
  local_world_size_of_all)
    with_secret=("${without_secret[@]}")
    for r in 0 1 2; do rank $r env LOCAL_WORLD_SIZE=3 LOCAL_RANK=$r; done
    ;;
  local_rank_twice) both_here LOCAL_WORLD_SIZE=2 LOCAL_RANK=0 ;;
  local_ranks_turned)
    export WORLD_SIZE=2
    for r in 0 1; do start $r 0 env RANK=$r LOCAL_RANK=$((1 - r)) LOCAL_WORLD_SIZE=2 "$programs/roll_call"; done
    ;;
  start_tree)
    ranks 0 2
    rank 1 env SINEW_START_TREE=foo
    ;;
  variable_unknown)
    ranks 0 2
    rank 1 env SINEW_TIMOUT=5s
    ;;
  few_descriptors)
    ranks 0 2
    rank 1 prlimit --nofile=16
    ;;
  small_shm)
    in_node 0 mount -t tmpfs -o size=64k tmpfs /dev/shm
    both_here
    ;;
  other_launcher)
    need_command mpirun.openmpi openmpi-bin
    ranks 0 1
    start 2 2 env -u WORLD_SIZE -u MASTER_ADDR -u MASTER_PORT OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
      mpirun.openmpi --oversubscribe -n 3 "$programs/roll_call"
    ;;
  never_started) ranks 0 1 ;;
  rank_0_never_started) ranks 1 2 ;;
  ends_early)
    SINEW_RSH=$(remote_shell "$(enters_host)")
    export SINEW_RSH
    # shellcheck disable=SC2016
    sinew_run sh -c '[ $RANK -ne 1 ] || exit 3; exec "$0"' "$programs/roll_call"
    ;;
  no_program)
    SINEW_RSH=$(remote_shell "$(enters_host)")
    export SINEW_RSH
    for host in 0 2; do in_node $host install -m 755 "$programs/roll_call" /tmp/trainer; done
    sinew_run /tmp/trainer
    ;;
  no_sinew_run)
    # shellcheck disable=SC2016
    SINEW_RSH=$(remote_shell '[ $1 != '"$n1"' ] || exec sh -c /nowhere/sinew-run' "$(enters_host)")
    export SINEW_RSH
    sinew_run "$programs/roll_call"
    ;;
  password)
    # shellcheck disable=SC2016
    SINEW_RSH=$(remote_shell '[ $1 != '"$n1"' ] || exec sleep 600' "$(enters_host)")
    export SINEW_RSH
    sinew_run "$programs/roll_call"
    ;;
  *) echo "wrong_starts.sh: no case '$case'" >&2; exit 2 ;;
esac

# What each process is to do and to say.
declare -A expected=() text_of=()
while IFS='|' read -r who does text; do
  # shellcheck disable=SC2016
  text=$(sed -E 's/^ `+ ?//; s/ ?`+$//' <<<"$text")
  if [ "$who" = "all ranks" ]; then who="ranks 0, 1, 2"; fi
  # shellcheck disable=SC2013
  for one in $(sed -E 's/^ranks? //; s/,//g' <<<"$who"); do
    if [ -n "${process_of[$one]:-}" ]; then expected[$one]=$does text_of[$one]=$text; fi
  done
  if [ -n "$text" ] && ! [[ $text =~ n[012]|10\.213\. ]]; then wrong "the row of $who names no host: $text"; fi
done < <(rows "$of_case")
if [ ${#expected[@]} -eq 0 ] && [ "$mode" != show ]; then wrong "the table has no case '$of_case'"; fi

# says WHO: without the names of the program and of its process
says() { sed -E 's/^(roll_call|sinew-run): //; s/^sinew\[[0-9]+\] warning: /warning: /' "$engines_home/says.$1"; }

# Waits until all processes have done what is expected, but no longer than whoever starts a job should wait.
declare -A code_of=()
is_settled() { # WHO
  if [ -z "${code_of[$1]:-}" ] && ! kill -0 "${process_of[$1]}" 2>/dev/null; then
    code_of[$1]=0
    wait "${process_of[$1]}" || code_of[$1]=$?
  fi
  if [ -n "${code_of[$1]:-}" ]; then return; fi
  if [ "$mode" = show ]; then return 1; fi
  case ${expected[$1]:-} in
    waits) [ "$mode" = quick ] || [ -s "$engines_home/says.$1" ] ;;
    '') true ;;
    *) false ;;
  esac
}
all_are_settled() {
  local who all=true
  for who in "${!process_of[@]}"; do is_settled "$who" || all=false; done
  [ "$all" = true ]
}
end=$((SECONDS + 30))
until all_are_settled || [ $SECONDS -ge $end ]; do sleep 0.1; done

if [ "$mode" = show ]; then
  for who in $(printf '%s\n' "${!process_of[@]}" | sort); do
    echo "$who: ${code_of[$who]:-waits}"
    says "$who" | sed 's/^/  /'
  done
  exit
fi

# is_like TEXT LINE: with two points in the text for anything
is_like() {
  local text=$1 line=$2 part=${1%%..*}
  [[ $line == "$part"* ]] || return 1
  while [[ $text == *..* ]]; do
    line=${line#*"$part"} text=${text#*..}
    part=${text%%..*}
    [[ $line == *"$part"* ]] || return 1
  done
  [[ $line == *"$part" ]]
}
# one_line_is PREFIX TEXT < LINES: exactly one line begins with PREFIX, and the rest of it is like the text
one_line_is() {
  local lines
  lines=$(grep -- "^$1" || true)
  [ -n "$lines" ] && [ "$(wc -l <<<"$lines")" -eq 1 ] && is_like "$2" "${lines#"$1"}"
}
any_line_is() { # TEXT < LINES
  local line
  while read -r line; do
    if is_like "$1" "$line"; then return; fi
  done
  return 1
}
is_right() { # WHO
  local text=${text_of[$1]:-} code=${code_of[$1]:-} lines
  lines=$(says "$1" | wc -l)
  case ${expected[$1]:-}:$1 in
    ends:*) [ "${code:-0}" -ne 0 ] && says "$1" | grep -v '^warning: ' | one_line_is '' "$text" && [ "$lines" -le 2 ] ;;
    works:0) [ "${code:-1}" -eq 0 ] && says "$1" | one_line_is '' "$WORLD_SIZE ranks on .., sums right" ;;
    works:*) [ "${code:-1}" -eq 0 ] && [ "$lines" -le 1 ] ;;
    fails:*) [ "${code:-0}" -ne 0 ] && says "$1" | any_line_is "$text" ;;
    waits:* | :*)
      if [ "$mode" = quick ]; then return; fi
      if [ -n "$code" ]; then return 1; fi
      ;;&
    waits:sinew-run) says "$1" | any_line_is "$text" ;;
    waits:*) says "$1" | one_line_is 'warning: ' "$text" && [ "$lines" -eq 1 ] ;;
    :*) [ "$lines" -eq 0 ] ;;
  esac
}
verdict=0
for who in "${!process_of[@]}"; do
  if is_right "$who"; then continue; fi
  echo "wrong_starts.sh $case: $who: expected that it ${expected[$who]:-waits and says nothing}${text_of[$who]:+: ${text_of[$who]}}"
  echo "found: ${code_of[$who]:+exit code }${code_of[$who]:-it waits}"
  says "$who" | sed 's/^/  /'
  verdict=1
done
exit $verdict
