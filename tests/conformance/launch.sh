#!/usr/bin/env bash
# launch.sh openmpi|mpich|sinew_run RANKS PROGRAM ARGS...: 77 where the launcher is not installed
set -eu
launcher=$1 ranks=$2
shift 2
need() { command -v "$1" >/dev/null || { echo "skipped: $1 is not installed"; exit 77; }; }
case $launcher in
  openmpi) need mpirun.openmpi
    exec mpirun.openmpi --allow-run-as-root --oversubscribe -n "$ranks" "$@" ;;
  mpich) need mpirun.mpich
    exec mpirun.mpich -n "$ranks" "$@" ;;
  sinew_run) exec "$LAUNCHER" -n "$ranks" "$@" ;;
esac
