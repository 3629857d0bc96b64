"""ray_job.py actors|train|model|program FOLDER PROGRAM: checked sums of 4 ranks on two nodes of a running Ray.

actors: four actors get the variables of a job by hand, and use PyTorch's backend sinew. train: Ray Train makes the
process group. model: the workers of Ray Train train the model of small_model.py. program: they start PROGRAM, which is
roll_call. Their process group is then Gloo's. Prints the line that roll_call or small_model prints. FOLDER is seen by
all nodes, and has a file with a secret.
"""

import collections
import os
import socket
import subprocess
import sys

import ray

RANKS = 4


def roll_call():
    """Makes sums in the process group that exists; returns the line on rank 0."""
    import torch
    import torch.distributed as dist

    rank, ranks = dist.get_rank(), dist.get_world_size()
    right = dist.get_backend() == "sinew"
    for count in (1, 1009, 100000):
        data = torch.arange(count, dtype=torch.int64) * (rank + 1)
        dist.all_reduce(data)
        right = right and torch.equal(data, torch.arange(count, dtype=torch.int64) * (ranks * (ranks + 1) // 2))
    all_of = [None] * ranks
    dist.all_gather_object(all_of, (socket.gethostname(), right))
    hosts = collections.Counter(host for host, _ in all_of)
    text = " ".join(f"{host}:{count}" for host, count in sorted(hosts.items()))
    sums = "right" if all(one for _, one in all_of) else "WRONG"
    return f"roll_call: {ranks} ranks on {len(hosts)} hosts ({text}), sums {sums}" if rank == 0 else None


@ray.remote(num_cpus=1)
class Rank:
    """A rank of a job whose variables the driver makes."""

    def place(self):
        """An address of this rank's node, and a port that is free there."""
        with socket.socket() as free:
            free.bind(("", 0))
            return ray.util.get_node_ip_address(), free.getsockname()[1]

    def run(self, rank, address, port):
        import torch.distributed as dist

        os.environ.update(RANK=str(rank), WORLD_SIZE=str(RANKS), MASTER_ADDR=address, MASTER_PORT=str(port))
        dist.init_process_group("sinew")
        line = roll_call()
        dist.destroy_process_group()
        return line


def actors():
    ranks = [Rank.options(scheduling_strategy="SPREAD").remote() for _ in range(RANKS)]
    address, port = ray.get(ranks[0].place.remote())
    return ray.get([one.run.remote(rank, address, port) for rank, one in enumerate(ranks)])[0]


def run_model(folder):
    """Trains the model of small_model.py, which is in that folder."""
    sys.path.append(folder)
    import small_model

    return small_model.train()


def run_program(folder, program):
    """Runs a C++ program with the variables that Ray Train has set."""
    environment = dict(os.environ, SINEW_SECRET_FILE=os.path.join(folder, "secret"))
    ended = subprocess.run([program], env=environment, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        raise RuntimeError(ended.stderr)
    return ended.stdout or None


def train(folder, backend, work):
    from ray.train import RunConfig, ScalingConfig
    from ray.train.torch import TorchConfig, TorchTrainer

    path = os.path.join(folder, "ray_train_line")

    def loop():
        line = work()
        if line is not None:
            with open(path, "w", encoding="utf-8") as file:
                file.write(line)

    TorchTrainer(
        loop,
        torch_config=TorchConfig(backend=backend),
        scaling_config=ScalingConfig(num_workers=RANKS, placement_strategy="SPREAD"),
        run_config=RunConfig(name="roll_call", storage_path=os.path.join(folder, "ray_results")),
    ).fit()
    with open(path, encoding="utf-8") as file:
        return file.read()


def main():
    ray.init(address="auto", log_to_driver=True)
    job, folder, program = sys.argv[1:]
    if job == "actors":
        line = actors()
    elif job == "train":
        line = train(folder, "sinew", roll_call)
    elif job == "model":
        here = os.path.dirname(os.path.abspath(__file__))
        line = train(folder, "sinew", lambda: run_model(here))
    else:
        line = train(folder, "gloo", lambda: run_program(folder, program))
    print(line.strip(), flush=True)


if __name__ == "__main__":
    main()
