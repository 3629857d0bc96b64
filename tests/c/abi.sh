#!/usr/bin/env bash
# abi.sh check|control|record C-FOLDER LIBRARY
#   check    the ABI of the library is that of C-FOLDER/sinew.abi, or has only new functions
#   control  changes that are planted in the record are found
#   record   writes the record
# LIBRARY: with debug information.
set -euo pipefail
job=$1 folder=$2 library=$3
if ! command -v abidw >/dev/null || ! command -v abidiff >/dev/null; then
  echo "skipped: abidw and abidiff are missing: apt-get install abigail-tools"
  exit 77
fi
record=$folder/sinew.abi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

dump() {
  abidw --no-corpus-path --no-comp-dir-path --no-show-locs --drop-private-types \
    --hd "$folder" --out-file "$1" "$library"
}

# 0: equal, or only functions that are new. abidiff's exit code has bit 3 (8) for what is incompatible for certain, bit 2
# (4) for any change.
compare() {
  local status=0
  abidiff --no-show-locs --no-added-syms --fail-no-debug-info "$1" "$2" >"$scratch/report" 2>&1 || status=$?
  return $status
}

# plant NAME PATTERN REPLACEMENT: the record with a change, which the check must find
plant() {
  sed -E "s/$2/$3/" "$record" >"$scratch/planted.abi"
  if cmp -s "$record" "$scratch/planted.abi"; then
    echo "control: nothing in the record is as '$2': the change '$1' could not be planted"
    exit 1
  fi
  if compare "$scratch/planted.abi" "$scratch/now.abi"; then
    echo "control: the change '$1' was not found"
    exit 1
  fi
  echo "found: $1"
}

if [ "$job" = record ]; then
  dump "$record"
  exit 0
fi
dump "$scratch/now.abi"
case $job in
  check)
    if compare "$record" "$scratch/now.abi"; then
      echo "the ABI is as recorded"
    else
      cat "$scratch/report"
      echo "the ABI of libsinew.so.0 differs from c/sinew.abi. A function or a struct that exists must stay as it is. If the"
      echo "change only adds something, record it: tests/c/abi.sh record c build/release/abi/libsinew.so"
      exit 1
    fi
    ;;
  control)
    plant "a function is gone" "sinew_all_reduce" "sinew_sum_all"
    plant "an enumerator has another number" "name='SINEW_PEER_LOST' value='7'" "name='SINEW_PEER_LOST' value='70'"
    plant "a member of a struct has another place" \
      "(layout-offset-in-bits=')64('>\s*)?<var-decl name='site'" "\1<var-decl name='place'"
    plant "a symbol has another version" "SINEW_0" "SINEW_1"
    ;;
esac
