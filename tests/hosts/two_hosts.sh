#!/usr/bin/env bash
# two_hosts.sh JOB PROBE SINEW_RUN: lets four ranks on two hosts meet in one of the ways that there are; the hosts are network namespaces
# of this machine, joined by one link. Needs root. Exit code 77: no namespaces here.
set -euo pipefail
job=$1 probe=$2 run=$3
# shellcheck source=tests/hosts/namespaces.sh
source "$(dirname -- "$0")/namespaces.sh"
# shellcheck source=tests/hosts/await.sh
source "$(dirname -- "$0")/await.sh"
make_hosts 2
one=$(address 0) two=$(address 1)
timeout=60s
umask 077 # secrets

# By hand: RANK LOCAL_RANK HOST SECRET-FILE
rank() {
  on "$3" env RANK="$1" LOCAL_RANK="$2" WORLD_SIZE=4 LOCAL_WORLD_SIZE=2 MASTER_ADDR="$one" MASTER_PORT=29600 \
    SINEW_TIMEOUT="$timeout" SINEW_SECRET_FILE="$folder/$4" "$probe" 2
}

# Without a secret: RANK LOCAL_RANK HOST; MUNGE carries one.
munged() {
  on "$3" env RANK="$1" LOCAL_RANK="$2" WORLD_SIZE=4 LOCAL_WORLD_SIZE=2 MASTER_ADDR="$one" MASTER_PORT=29600 \
    SINEW_TIMEOUT="$timeout" FAKE_MUNGE_HOST="$3" "$probe" 2
}
# The same, where nobody says how many hosts there are.
munged_unknown_hosts() {
  on "$3" env RANK="$1" LOCAL_RANK="$2" WORLD_SIZE=4 MASTER_ADDR="$one" MASTER_PORT=29600 \
    SINEW_TIMEOUT="$timeout" FAKE_MUNGE_HOST="$3" "$probe" 2 | sed 's/of -1/of 2/'
}

# four RANK_COMMAND [SECRET-FILE]
four() {
  "$1" 1 1 0 ${2:+"$2"} & first=$!
  "$1" 2 0 1 ${2:+"$2"} & second=$!
  "$1" 3 1 1 ${2:+"$2"} & third=$!
  "$1" 0 0 0 ${2:+"$2"}
  wait $first
  wait $second
  wait $third
}

case $job in
  variables)
    head -c 32 /dev/urandom >"$folder/secret"
    four rank secret
    ;;
  port_in_use) # by a program that accepts connections and says nothing, as torch's store may
    head -c 32 /dev/urandom >"$folder/secret"
    mkfifo "$folder/held"
    on 0 python3 -c 'import socket, sys
silent = socket.create_server(("", 29600))
print("listening", flush=True)
sys.stdin.read()' <"$folder/held" >"$folder/occupant" & occupant=$!
    exec 7>"$folder/held" # it ends when this is closed
    await "the start of the occupant" $occupant grep -qs listening "$folder/occupant"
    timeout=20s
    four rank secret
    exec 7>&-
    wait $occupant
    ;;
  munge) four munged ;;
  munge_unknown_hosts) four munged_unknown_hosts ;;
  wrong_secret)
    head -c 32 /dev/urandom >"$folder/secret"
    head -c 32 /dev/urandom >"$folder/other"
    timeout=2s
    rank 0 0 0 secret & first=$!
    rank 2 0 1 other || true
    wait $first || true
    ;;
  sinew_run) SINEW_RSH=$rsh on 0 "$run" --hosts "localhost:2,$two:2" "$probe" 2 ;;
  openmpi)
    on 0 mpirun.openmpi --allow-run-as-root --oversubscribe -mca plm_rsh_agent "$rsh" -mca oob_tcp_if_include "$one/24" \
      --host "localhost:2,$two:2" -n 4 "$probe" 2
    ;;
  mpich)
    on 0 mpirun.mpich -launcher ssh -launcher-exec "$rsh" -iface link0 -hosts "$one:2,$two:2" -n 4 "$probe" 2
    ;;
  mpich_port) # whose port hands out no secret
    head -c 32 /dev/urandom >"$folder/secret"
    SINEW_SECRET_FILE=$folder/secret on 0 mpirun.mpich -pmi-port -launcher ssh -launcher-exec "$rsh" -iface link0 \
      -hosts "$one:2,$two:2" -n 4 "$probe" 2
    ;;
  *) echo "two_hosts.sh: no job '$job'" >&2; exit 2 ;;
esac
