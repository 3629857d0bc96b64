#!/usr/bin/env bash
# tls.sh JOB SINEW_RUN BENCH: jobs under TLS on two hosts, network namespaces of this machine. Needs root and openssl.
# Exit code 77: no namespaces, or no openssl, here.
#   both         all ranks have certificates: sums over tcp are right
#   one_side     the second host has no TLS: its rank says so, and does not wait
#   stranger     the second host has a certificate of another authority
set -euo pipefail
job=$1 run=$2 bench=$3
command -v openssl >/dev/null || { echo "openssl is not installed"; exit 77; }
# shellcheck source=tests/hosts/namespaces.sh
source "$(dirname -- "$0")/namespaces.sh"
make_hosts 2
umask 077 # keys and secrets

# authority NAME: NAME.pem and a certificate of it, NAME-rank.pem with NAME-rank.key
authority() {
  local curve=(-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes)
  openssl req -x509 "${curve[@]}" -days 2 -subj "/CN=$1" -keyout "$folder/$1.key" -out "$folder/$1.pem"
  openssl req "${curve[@]}" -subj /CN=rank -keyout "$folder/$1-rank.key" |
    openssl x509 -req -CA "$folder/$1.pem" -CAkey "$folder/$1.key" -days 2 -out "$folder/$1-rank.pem"
}
under_tls() { # AUTHORITY COMMAND..: in a shell of its own
  (
    export SINEW_TLS=1 SINEW_TLS_CERTIFICATE="$folder/$1-rank.pem" SINEW_TLS_KEY="$folder/$1-rank.key" SINEW_TLS_CA="$folder/$1.pem"
    trap - EXIT
    "${@:2}"
  )
}
rank() { # RANK COMMAND..: one of two, by hand
  on "$1" env RANK="$1" LOCAL_RANK=0 WORLD_SIZE=2 LOCAL_WORLD_SIZE=1 MASTER_ADDR="$(address 0)" MASTER_PORT=29600 \
    SINEW_TIMEOUT=3s SINEW_SECRET_FILE="$folder/secret" "${@:2}"
}
authority job 2>/dev/null
authority stranger 2>/dev/null
head -c 32 /dev/urandom >"$folder/secret"
sums=("$bench" all_reduce --transport tcp -b 8 -e 4MiB -f 8)

# refused WHAT-THE-SECOND-SAYS RUN-OF-THE-SECOND..: it ends by itself, with this reason
refused() {
  local status=0 first
  under_tls job rank 0 "${sums[@]}" >"$folder/first" 2>&1 & first=$!
  "${@:2}" rank 1 "${sums[@]}" >"$folder/second" 2>&1 || status=$?
  wait $first || true
  cat "$folder/first" "$folder/second"
  [ $status -ne 0 ] && grep -q "$1" "$folder/second"
}

case $job in
  both)
    under_tls job on_all "$run" 1,1 "${sums[@]}" | tee "$folder/out"
    grep -q '#wrong' "$folder/out" && grep -q 'Out of bounds values : 0 OK' "$folder/out"
    ;;
  one_side) refused "the listener speaks TLS: SINEW_TLS=1 is set there and not here" ;;
  stranger) refused "the certificate of the other side is refused" under_tls stranger ;;
  *) echo "tls.sh: no job '$job'" >&2; exit 2 ;;
esac
