"""Messages, groups of them, and calls that coroutines await.

    python -m sinew.run -n 3 python examples/python/messages.py
"""

import asyncio

import numpy as np

import sinew
from sinew import Message


async def exchange(comm: sinew.Communicator) -> float:
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    sent, received = np.full(1000, comm.rank, dtype=np.float64), np.empty(1000)
    await asyncio.gather(comm.start_send(sent, right), comm.start_recv(received, left))
    return float(received.mean())


def main() -> None:
    with sinew.World(threads="multiple") as world:
        comm = world.communicator
        right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
        token, next_token = np.array([comm.rank]), np.empty(1, dtype=np.int64)
        comm.sendrecv(token, right, next_token, left)
        comm.group([Message.send(token, left, tag=1), Message.recv(next_token, right, tag=1)])
        mean = asyncio.run(exchange(comm))
        if mean != left or next_token[0] != right:
            raise SystemExit(f"rank {comm.rank}: got {mean} and {next_token[0]}, expected {left} and {right}")
        print(f"rank {comm.rank}: {mean:.0f} from the left, {next_token[0]} from the right")


if __name__ == "__main__":
    main()
