"""The shortest: one array per rank, summed.

    python -m sinew.run -n 2 python examples/python/all_reduce.py
"""

import numpy as np

import sinew


def main() -> None:
    with sinew.World() as world:  # mpirun, srun, torchrun, sinew-run; alone: a world of one
        comm = world.communicator
        gradients = np.full(1 << 20, 1.0, dtype=np.float32)
        comm.all_reduce(gradients)  # in place; it raises what went wrong, and with whom
        expected = float(world.size)
        if not (gradients == expected).all():
            raise SystemExit(f"rank {world.rank} has a wrong sum, expected {expected}")

        mine = np.full(4, comm.rank, dtype=np.int64)
        everyone = np.empty(4 * comm.size, dtype=np.int64)
        work = comm.start_all_gather(mine, everyone)  # several calls in flight
        comm.broadcast(gradients, root=0)
        work.wait()
        if comm.rank == 0:
            print(f"{comm.size} ranks: sum {gradients[0]}, gathered {everyone[::4].tolist()}")
            print(comm.plan("all_reduce", gradients.size, "float32").explain())


if __name__ == "__main__":
    main()
