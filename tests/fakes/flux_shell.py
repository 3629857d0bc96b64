"""flux_shell.py [--no-pmi] HOLDER,.. TASKS PROGRAM ARGUMENT..: starts tasks and serves their PMI, as Flux's shells do.

HOLDER is a process for each node, in whose namespaces the node's TASKS tasks run. Each task gets Flux's variables and,
without --no-pmi, PMI_FD, PMI_RANK and PMI_SIZE. The exit code is the largest of all. The last line counts requests.
Source: flux-core, src/shell/pmi/pmi.c and src/common/libpmi/simple_server.c. Variables and answers are as there.
"""

import argparse
import collections
import os
import selectors
import socket
import subprocess
import sys

JOB = "ƒ2SfXhUqAjV"  # Flux names its jobs so, and the name of the key space is the job's
LONGEST = {"kvsname": 64, "keylen": 64, "vallen": 1024}
INVALID_KEY, INVALID_VALUE_LENGTH = 4, 8  # of PMI-1


class Server:
    """Answers PMI-1 requests of all tasks. One barrier stands for the fence of Flux's key-value store."""

    def __init__(self, tasks, nodes):
        self.tasks = tasks
        self.kept = {"PMI_process_mapping": f"(vector,(0,{nodes},{tasks // nodes}))", "flux.instance-level": "1"}
        self.committed = dict(self.kept)
        self.waiting = []
        self.seen = collections.Counter()

    def answer(self, line, connection):
        words = dict(word.split("=", 1) for word in line.split(" ") if "=" in word)
        command = words["cmd"]
        self.seen[command] += 1
        if command == "barrier_in":
            self.waiting.append(connection)
            if len(self.waiting) == self.tasks:
                self.committed.update(self.kept)
                for one in self.waiting:
                    one.sendall(b"cmd=barrier_out rc=0\n")
                self.waiting = []
            return
        connection.sendall((self.reply(command, words, line) + "\n").encode())

    def reply(self, command, words, line):
        if command == "init":
            return "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1"
        if command == "get_maxes":
            return "cmd=maxes rc=0 " + " ".join(f"{name}_max={most}" for name, most in LONGEST.items())
        if command == "get_my_kvsname":
            return f"cmd=my_kvsname rc=0 kvsname={JOB}"
        if command == "get_universe_size":
            return f"cmd=universe_size rc=0 size={self.tasks}"
        if command == "get_appnum":
            return "cmd=appnum rc=0 appnum=0"
        if command == "put":
            value = line.split("value=", 1)[1]
            if len(value) >= LONGEST["vallen"]:
                return f"cmd=put_result rc={INVALID_VALUE_LENGTH}"
            self.kept[words["key"]] = value
            return "cmd=put_result rc=0"
        if command == "get":
            value = self.committed.get(words["key"])
            return f"cmd=get_result rc={INVALID_KEY}" if value is None else f"cmd=get_result rc=0 value={value}"
        if command == "finalize":
            return "cmd=finalize_ack rc=0"  # the shell reads on, so that a second program of the task may begin anew
        raise ValueError(f"a PMI-1 request that Flux does not know: {line!r}")


def start(holder, nodes, rank, per_node, command, pmi):
    """Returns the process and, with PMI, the shell's end of its connection."""
    environment = dict(
        os.environ,
        FLUX_JOB_ID=JOB,
        FLUX_JOB_SIZE=str(nodes * per_node),
        FLUX_JOB_NNODES=str(nodes),
        FLUX_TASK_RANK=str(rank),
        FLUX_TASK_LOCAL_ID=str(rank % per_node),
    )
    enter = ["nsenter", "-n", "-u", "-m", "-t", holder]
    if not pmi:
        return subprocess.Popen(enter + command, env=environment), None
    ours, theirs = socket.socketpair()
    with theirs:
        environment.update(PMI_FD=str(theirs.fileno()), PMI_RANK=str(rank), PMI_SIZE=str(nodes * per_node))
        return subprocess.Popen(enter + command, env=environment, pass_fds=[theirs.fileno()]), ours


def serve(server, connections):
    """Answers until all tasks have closed their ends."""
    with selectors.DefaultSelector() as selector:
        for connection in connections:
            selector.register(connection, selectors.EVENT_READ, bytearray())
        while selector.get_map():
            for key, _ in selector.select():
                got = key.fileobj.recv(4096)
                if not got:
                    selector.unregister(key.fileobj)
                    continue
                key.data.extend(got)
                while b"\n" in key.data:
                    line, _, rest = bytes(key.data).partition(b"\n")
                    key.data[:] = rest
                    server.answer(line.decode(), key.fileobj)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-pmi", action="store_true", help="as flux run -o pmi=off")
    parser.add_argument("holders", type=lambda text: text.split(","))
    parser.add_argument("tasks", type=int)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    asked = parser.parse_args()
    nodes = len(asked.holders)
    tasks = [
        start(holder, nodes, node * asked.tasks + local, asked.tasks, asked.command, not asked.no_pmi)
        for node, holder in enumerate(asked.holders)
        for local in range(asked.tasks)
    ]
    server = Server(len(tasks), nodes)
    serve(server, [connection for _, connection in tasks if connection is not None])
    codes = [process.wait() for process, _ in tasks]
    print("flux_shell: requests:", " ".join(f"{name} {count}" for name, count in sorted(server.seen.items())), flush=True)
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
