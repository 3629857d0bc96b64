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
  abidw --no-corpus-path --no-comp-dir-path --no-show-locs --exported-interfaces-only --drop-private-types \
    --drop-undefined-syms --no-elf-needed --no-parameter-names --no-write-default-sizes \
    --hd "$folder" --out-file "$1" "$library"
  sed -i "s|path='[^']*/c/|path='c/|" "$1" # where the sources lie is nothing of the ABI
}

# Returns 0 if both are equal, or if only functions are new.
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
    plant "a struct has another size" "(<class-decl name='sinew_call_options' size-in-bits=')[0-9]+" "\1640"
    plant "a member of a struct has another type" "(<var-decl name='deadline_s' type-id=')[^']*" "\1type-id-1"
    plant "a symbol has another version" "SINEW_0" "SINEW_1"
    sed "/<elf-symbol name='sinew_version'/d; /<function-decl name='sinew_version'/,/<\/function-decl>/d" "$record" \
      >"$scratch/fewer.abi"
    if cmp -s "$record" "$scratch/fewer.abi" || ! compare "$scratch/fewer.abi" "$scratch/now.abi"; then
      cat "$scratch/report"
      echo "control: a new function was refused"
      exit 1
    fi
    echo "accepted: a new function"
    ;;
esac
