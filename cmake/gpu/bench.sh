#!/usr/bin/env bash
# bench.sh [FOLDER]: figures of GPUs; FOLDER holds bin and lib, default: where this script lies.
# RANKS: that the collectives run on; default: as many as there are devices, 2 at least.
set -uo pipefail
folder=${1:-$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)}
nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv 2>/dev/null
devices=$(nvidia-smi --list-gpus 2>/dev/null | wc -l)
ranks=${RANKS:-$((devices > 2 ? devices : 2))}
bad=0

echo "== device_bench"
"$folder/bin/device_bench" || bad=1
for threads in 2 4; do
  echo "== device_threads --ranks $threads"
  "$folder/bin/device_threads" --ranks $threads 2>/dev/null || bad=1
done

echo "== NCCL through sinew, beside NCCL itself: one rank, then $ranks"
"$folder/bin/device_nccl" 2>/dev/null || bad=1
"$folder/bin/sinew-run" -n "$ranks" "$folder/bin/device_nccl" -b 1MiB -e 64MiB --rounds 21 2>/dev/null || bad=1

# collective TITLE OPTION..: a table of device memory from 8 bytes to 64 MiB.
collective() {
  echo "== $1, $ranks ranks on $devices devices"
  "$folder/bin/sinew-run" -n "$ranks" "$folder/bin/sinew-bench" "${@:2}" --device -b 8 -e 64MiB -f 8 2>/dev/null || bad=1
}
for what in all_reduce all_gather reduce_scatter all_to_all broadcast; do
  collective "$what, as selected" "$what"
done
collective "all_reduce by cuda_ipc" all_reduce --algorithm cuda_ipc
collective "all_reduce through the host" all_reduce --transport shm
if [ "$devices" -ge "$ranks" ]; then
  collective "all_reduce by NCCL" all_reduce --algorithm nccl --registered
fi
collective "latency of messages" latency
collective "bandwidth of messages" bandwidth
exit $bad
