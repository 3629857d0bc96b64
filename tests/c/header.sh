#!/usr/bin/env bash
# header.sh COMPILER STANDARD INCLUDE-ROOT PROGRAM: the header compiles without a warning, and a program with it.
set -euo pipefail
compiler=$1 standard=$2 root=$3 program=$4
if ! command -v "$compiler" >/dev/null; then
  echo "skipped: there is no $compiler"
  exit 77
fi
language=c
if [[ $standard == c++* ]]; then language=c++; fi
compile() { "$compiler" -x "$language" "-std=$standard" -Wall -Wextra -Wpedantic -Werror "-I$root" -fsyntax-only "$@"; }
for header in sinew.h sinew/c/{calls,communicator,types,work,world}.h; do
  echo "#include <$header>" | compile -
done
compile "$program"
# The control: a warning fails the check.
if echo '#include <sinew.h>
int main(void) { int unused = 0; return sinew_barrier; }' | compile - 2>/dev/null; then
  echo "a planted warning was not found"
  exit 1
fi
