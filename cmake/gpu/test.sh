#!/usr/bin/env bash
# test.sh [FOLDER]: the suites that need a GPU; FOLDER holds bin and lib, default: where this script lies.
# PyTorch's part runs where `python3` has a torch that sees the device, and FOLDER has site and torch.
set -uo pipefail
folder=${1:-$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)}
nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv 2>/dev/null
"$folder/bin/sinew-info" transports
bad=0
for suite in test_cuda test_device_kernels test_cuda_ipc test_gpu_nccl; do
  if [ -x "$folder/bin/$suite" ]; then
    echo "== $suite"
    "$folder/bin/$suite" || bad=1
  fi
done

# torch NAME COMMAND..
torch() {
  echo "== $1"
  PYTHONPATH=$folder/site TEST_DEVICE=cuda python3 "${@:2}" || bad=1
}
if ! [ -d "$folder/site" ]; then
  echo "== PyTorch: not tested, $folder has no folder site: ./run gpu-pack makes one"
elif ! python3 -c 'import sys, torch; sys.exit(not torch.cuda.is_available())'; then
  echo "== PyTorch: not tested, python3 has no torch that sees a device"
else
  torch "cuda:sinew: the calls" "$folder/torch/reports.py" --only '^device_' --world-size 2
  torch "cuda:sinew beside torch's NCCL" "$folder/torch/strategies.py" --world-size 2
  SINEW_TRANSPORTS=shm,nccl torch "cuda:sinew by NCCL alone, beside torch's NCCL" "$folder/torch/strategies.py" \
    --world-size 2 --only 'ddp|fsdp|tensor_parallel|training'
fi
exit $bad
