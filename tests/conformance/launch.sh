#!/usr/bin/env bash
# launch.sh openmpi|mpich|sinew_run RANKS PROGRAM ARGS...: 77 where the launcher is not installed
set -eu
launcher=$1 ranks=$2
shift 2
need() { command -v "$1" >/dev/null || { echo "skipped: $1 is not installed"; exit 77; }; }
# libfabric's shared memory takes 16 MiB of /dev/shm for each process, UCX's less.
if [ "${SINEW_OFI_PROVIDER:-}" = shm ] || [ "${UCX_TLS:-}" = posix,self ]; then
  free=$(df --output=avail -k /dev/shm | tail -n 1)
  if [ "$free" -lt $((ranks * 24 * 1024)) ]; then
    echo "skipped: /dev/shm has $free KiB free, $ranks ranks need 24 MiB each"
    exit 77
  fi
fi
case $launcher in
  openmpi) need mpirun.openmpi
    exec mpirun.openmpi --allow-run-as-root --oversubscribe -n "$ranks" "$@" ;;
  mpich) need mpirun.mpich
    exec mpirun.mpich -n "$ranks" "$@" ;;
  sinew_run) exec "$LAUNCHER" -n "$ranks" "$@" ;;
esac
