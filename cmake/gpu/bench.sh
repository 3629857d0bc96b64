#!/usr/bin/env bash
# bench.sh [FOLDER]: figures of a GPU; FOLDER holds bin and lib, default: where this script lies.
set -uo pipefail
folder=${1:-$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)}
nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv 2>/dev/null
bad=0
for program in device_bench; do
  if [ -x "$folder/bin/$program" ]; then
    echo "== $program"
    "$folder/bin/$program" || bad=1
  fi
done
exit $bad
