#!/usr/bin/env bash
# test.sh [FOLDER]: the suites that need a GPU; FOLDER holds bin and lib, default: where this script lies.
set -uo pipefail
folder=${1:-$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)}
nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv 2>/dev/null
"$folder/bin/sinew-info" transports
bad=0
for suite in test_cuda test_cuda_ipc test_gpu_nccl; do
  if [ -x "$folder/bin/$suite" ]; then
    echo "== $suite"
    "$folder/bin/$suite" || bad=1
  fi
done
exit $bad
