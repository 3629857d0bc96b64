#!/usr/bin/env bash
# take.sh README FILE FOLDER: writes a program that the README prints into FOLDER/FILE, and the commands printed after it
# into FOLDER/run.sh. The README names the program as `FILE` in the line before its block; the next block holds the commands.
set -euo pipefail
readme=$1 file=$2 folder=$3
mkdir -p "$folder"
awk -v name="\`$file\`" -v program="$folder/$file" -v commands="$folder/run.sh" '
  BEGIN { print "set -e" >commands }
  index($0, name) && !blocks { found = 1 }
  found && /^```/ {
    inside = !inside
    if (inside) ++blocks
    if (blocks == 2 && !inside) { complete = 1; exit }
    next
  }
  inside { print >(blocks == 1 ? program : commands) }
  END { exit !complete }' "$readme" || {
  echo "$readme: expected a line with \`$file\`, then a block with this program, then a block with its commands" >&2
  exit 1
}
