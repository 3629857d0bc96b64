"""Reductions by functions of one's own, groups of ranks, and memory that ranks of a host share.

    python -m sinew.run -n 4 python examples/python/reductions.py
"""

import numpy as np
import numpy.typing as npt

import sinew

Vector = npt.NDArray[np.float32]


def log_sum(a: Vector, b: Vector) -> Vector:
    """log(exp(a) + exp(b)), associative and commutative as an operator must be."""
    result: Vector = np.logaddexp(a, b)
    return result


def main() -> None:
    with sinew.World() as world:
        comm = world.communicator
        memory = world.allocate(1024 * 4)
        logits = np.frombuffer(memoryview(memory), dtype=np.float32)
        logits[:] = 0.0
        comm.all_reduce(logits, op=log_sum)
        if not np.allclose(logits, np.log(world.size)):
            raise SystemExit(f"rank {world.rank} has {logits[0]}, expected {np.log(world.size)}")

        with comm.split(comm.rank % 2, name="parity") as half:
            best = np.array([comm.rank], dtype=np.int32)
            half.all_reduce(best, op="max")
            print(f"rank {world.rank}: {memory.known_as}; largest of {half.name} is {best[0]}")


if __name__ == "__main__":
    main()
