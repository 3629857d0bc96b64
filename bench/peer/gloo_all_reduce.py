"""All-reduce of PyTorch over Gloo on two ranks: median us per call of batches, with the buffer rewritten in between.

Prints one line "BYTES MICROSECONDS" per size. Usage: gloo_all_reduce.py PORT BYTES...
"""
import statistics
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

CALLS = 50
BATCHES = 21


def run(rank, port, sizes):
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    torch.set_num_threads(1)
    for size in sizes:
        data = torch.ones(size // 4)
        times = []
        for _ in range(BATCHES):
            data.fill_(1.0)
            dist.barrier()
            start = time.perf_counter()
            for _ in range(CALLS):
                dist.all_reduce(data)
            times.append((time.perf_counter() - start) / CALLS * 1e6)
            assert data[0] == 2.0**CALLS
        if rank == 0:
            print(size, statistics.median(times), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(run, args=(int(sys.argv[1]), [int(a) for a in sys.argv[2:]]), nprocs=2)
