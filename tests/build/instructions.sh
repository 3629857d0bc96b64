#!/usr/bin/env bash
# instructions.sh PROGRAM MOST: an all_reduce of 8 bytes, the peer's flag being set, takes at most MOST instructions, and
# among the functions it runs is no lock, no allocation, no map and no system call. The coarse clock of the call's record
# is read from memory that the kernel shares. The same holds for a call without a source line.
set -euo pipefail
program=$1 most=$2
if ! command -v valgrind >/dev/null; then
  echo "skipped: valgrind is not installed, which counts the instructions"
  exit 77
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# count FILE [option]: instructions of the median call; its functions go into FILE. Single calls do more: every 50 us of
# waiting, by the clock, the engine looks after sources that have nothing to do.
count() {
  local file=$1 median
  shift
  rm -f "$scratch"/raw*
  valgrind -q --tool=callgrind --callgrind-out-file="$scratch/raw" --collect-atstart=no \
    --toggle-collect=measured_call --dump-after=measured_call "$program" "$@" >/dev/null 2>"$scratch/said"
  median=$(awk '/^totals:/ && $2 > 0 { print $2, FILENAME }' "$scratch"/raw.* | sort -n | awk '{ line[NR] = $0 } END { print line[int((NR + 1) / 2)] }')
  callgrind_annotate --threshold=100 "${median#* }" >"$file"
  echo "${median%% *}"
}

# forbidden FILE: the functions that must not be there; clock_gettime's way into the kernel is valgrind's own
forbidden() {
  grep -oE '(pthread_(mutex|rwlock|cond|spin)[a-z_]*|__lll_[a-z_]*|[a-z_]*(malloc|calloc|realloc)|_int_free|operator (new|delete)|_Rb_tree|_Hashtable|syscall|futex|sched_yield|epoll_[a-z]*|membarrier|__cxa_[a-z_]*|std::function)' "$1" |
    sort -u | paste -sd , || true
}

# On a busy machine more than half of the calls may have waited long enough for that: what is too much is too much again.
check() {
  local found bad
  for _ in 1 2 3; do
    found=$(count "$scratch/call" "$@")
    if [ "$found" -le "$most" ]; then break; fi
  done
  bad=$(forbidden "$scratch/call")
  echo "$found instructions a call${*:+ with $*}, at most $most"
  if ! [ "$found" -le "$most" ] || [ "$found" -lt 100 ]; then
    head -n 60 "$scratch/call"
    exit 1
  fi
  if [ -n "$bad" ]; then
    echo "it runs what it must not: $bad"
    exit 1
  fi
}
check
check --unnamed
count "$scratch/planted" --planted >/dev/null
if [ -z "$(forbidden "$scratch/planted")" ]; then
  echo "the control failed: a planted allocation was not found"
  exit 1
fi
