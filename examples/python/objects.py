"""Objects of Python, functions in processes, and what happens if one of them fails.

    python examples/python/objects.py
"""

import sinew


def work(name: str) -> dict[str, int]:
    with sinew.World() as world:
        objects = world.communicator.objects
        settings = objects.broadcast({"job": name, "seed": 7} if world.rank == 0 else None)
        counts = objects.all_gather(settings["seed"] + world.rank)
        longest: int = objects.all_reduce(world.rank, max)
        return {"rank": world.rank, "total": sum(counts), "longest": longest}


def fails() -> None:
    with sinew.World() as world:
        if world.rank == 1:
            raise ValueError("no such file: weights.bin")
        world.communicator.barrier()


def main() -> None:
    for result in sinew.run(work, 3, "counting"):
        print(result)
    try:
        sinew.run(fails, 2)
    except sinew.RankFailed as error:
        print(f"rank {error.rank} failed: {error.__cause__!r}")


if __name__ == "__main__":
    main()
