"""sinew.run, and the programs that the package starts."""

import os
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

import numpy as np

import sinew
from ranks import DTYPES, dtype, values

HERE = os.path.dirname(os.path.abspath(__file__))


def total(first):
    with sinew.World() as world:
        data = np.full(3, first + world.rank)
        world.communicator.all_reduce(data)
        return world.rank, int(data[0])


def sums_of_all_dtypes():
    wrong = []
    with sinew.World() as world:
        for name in DTYPES:
            for count in (1, 1000, 300_000):
                data = values(name, count, world.rank, most=1)
                world.communicator.all_reduce(data)
                expected = values(name, count, 0, most=1) + values(name, count, 1, most=1)
                if not (data == expected.astype(dtype(name))).all():
                    wrong.append((name, count))
        return [t.name for t in world.transports() if t.ok], wrong


def fails_on(rank):
    with sinew.World() as world:
        if world.rank == rank:
            raise KeyError("weights of layer 3")
        world.communicator.barrier()
        world.communicator.barrier()


def dies_on(rank):
    with sinew.World() as world:
        if world.rank == rank:
            os.kill(os.getpid(), signal.SIGKILL)
        world.communicator.barrier()


def sleeps():
    time.sleep(60)


def exits_on(rank):
    with sinew.World() as world:
        if world.rank == rank:
            sys.exit(3)
        world.communicator.barrier()


def survives():
    world = sinew.World(timeout=20)
    try:
        if world.rank == 1:
            os._exit(1)
        world.communicator.all_reduce(np.ones(1))
    except sinew.PeerLost as error:
        lost = error.rank
    smaller = world.shrink()
    data = np.ones(1)
    smaller.communicator.all_reduce(data)
    result = lost, smaller.size, float(data[0]), world.closed
    smaller.close()
    return result


def shares_memory():
    with sinew.World() as world:
        memory = world.allocate(1 << 20)
        data = np.frombuffer(memory, np.float32)
        data[:] = world.rank
        world.communicator.all_reduce(data)
        return memory.known_as, float(data[0])


def tells_variables():
    return os.environ["RANK"], os.environ["WORLD_SIZE"], os.environ["LOCAL_RANK"]


def children_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return file.read().split()


class Run(unittest.TestCase):
    def test_results_come_in_the_order_of_the_ranks(self):
        self.assertEqual(sinew.run(total, 3, 10), [(0, 33), (1, 33), (2, 33)])
        self.assertEqual(sinew.run(tells_variables, 2), [("0", "2", "0"), ("1", "2", "1")])

    def test_processes_reduce_every_dtype_over_shared_memory(self):
        for transports, wrong in sinew.run(sums_of_all_dtypes, 2):
            self.assertIn("shm", transports)
            self.assertEqual(wrong, [])

    def test_memory_of_the_world_is_shared(self):
        for known_as, value in sinew.run(shares_memory, 2):
            self.assertIn("shared memory of shm", known_as)
            self.assertEqual(value, 1)

    def test_exception_of_a_rank_is_raised_with_rank_and_traceback(self):
        with self.assertRaises(sinew.RankFailed) as failure:
            sinew.run(fails_on, 3, 1)
        error = failure.exception
        self.assertEqual(error.rank, 1)
        self.assertIsInstance(error.__cause__, KeyError)
        self.assertIn("KeyError: 'weights of layer 3'", str(error))
        self.assertIn("fails_on", error.traceback)
        self.assertEqual(children_of(os.getpid()), self.trackers())

    def trackers(self):
        """The resource tracker of multiprocessing lives as long as this process."""
        return [pid for pid in children_of(os.getpid()) if b"resource_tracker" in Path(f"/proc/{pid}/cmdline").read_bytes()]

    def test_killed_rank_is_said(self):
        with self.assertRaisesRegex(sinew.RankFailed, "rank 0 ended by signal 9"):
            sinew.run(dies_on, 1, 0)
        with self.assertRaises(sinew.RankFailed):
            sinew.run(dies_on, 2, 1)

    def test_exit_of_a_rank_is_said(self):
        with self.assertRaisesRegex(sinew.RankFailed, "rank 1 failed: SystemExit: 3"):
            sinew.run(exits_on, 2, 1)

    def test_survivors_shrink(self):
        program = f"import sys; sys.path.insert(0, {HERE!r}); import run_test; print(run_test.survives())"
        ran = subprocess.run(
            [sys.executable, "-m", "sinew.run", "-n", "3", "--on-failure", "continue", sys.executable, "-c", program],
            capture_output=True, text=True, timeout=60,
        )
        self.assertEqual(ran.stdout.count("(1, 2, 2.0, True)"), 2, ran.stdout + ran.stderr)

    def test_timeout_ends_all(self):
        began = time.monotonic()
        with self.assertRaisesRegex(sinew.Timeout, "ranks 0, 1 have not ended in time"):
            sinew.run(sleeps, 2, timeout=2)
        self.assertLess(time.monotonic() - began, 10)

    def test_wrong_arguments_are_said(self):
        with self.assertRaisesRegex(sinew.InvalidArgument, "ranks is 0"):
            sinew.run(total, 0)
        with self.assertRaisesRegex(sinew.InvalidArgument, "function is a int"):
            sinew.run(3, 1)
        with self.assertRaisesRegex(sinew.InvalidArgument, "cannot be pickled"):
            sinew.run(total, 1, (each for each in "generator"))

    def test_lambdas_run_with_cloudpickle(self):
        try:
            import cloudpickle  # noqa: F401
        except ModuleNotFoundError:
            self.skipTest("cloudpickle is not installed")
        self.assertEqual(sinew.run(lambda x: x + 1, 2, 4), [5, 5])

    def test_ctrl_c_ends_all_and_leaves_no_orphan(self):
        self.ends_by(signal.SIGINT)

    def test_killed_parent_leaves_no_orphan(self):
        self.ends_by(signal.SIGKILL)

    def ends_by(self, number):
        program = f"import sys; sys.path.insert(0, {HERE!r}); import sinew, run_test; sinew.run(run_test.sleeps, 2)"
        parent = subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True)
        until = time.monotonic() + 20
        while len(children_of(parent.pid)) < 3:  # two ranks and the resource tracker
            self.assertLess(time.monotonic(), until)
            time.sleep(0.05)
        children = children_of(parent.pid)
        time.sleep(1.0)  # the ranks have started
        parent.send_signal(number)
        said = parent.communicate(timeout=20)[1]
        if number == signal.SIGINT:
            self.assertIn("KeyboardInterrupt", said)
        until = time.monotonic() + 10
        while any(self.runs(pid) for pid in children):
            self.assertLess(time.monotonic(), until, f"children of {number} still run")
            time.sleep(0.05)

    def runs(self, pid):
        try:
            with open(f"/proc/{pid}/stat") as file:
                return file.read().rsplit(")", 1)[1].split()[0] != "Z"
        except FileNotFoundError:
            return False


class Programs(unittest.TestCase):
    def python(self, *arguments):
        return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=120)

    def test_programs_are_found_in_both_manners(self):
        for name in ("run", "bench", "info"):
            said = [self.python("-m", f"sinew.{name}", "--help"), self.python("-m", "sinew", name, "--help")]
            for ran in said:
                self.assertEqual((ran.returncode, f"sinew-{name}" in ran.stdout), (0, True), ran.stderr)
            self.assertEqual(said[0].stdout, said[1].stdout)

    def test_wrong_name_is_said(self):
        ran = self.python("-m", "sinew", "walk")
        self.assertEqual((ran.returncode, ran.stdout), (2, ""))
        self.assertIn("'walk' was asked for, expected one of run, bench, info", ran.stderr)
        ran = self.python("-m", "sinew")
        self.assertEqual((ran.returncode, ran.stdout), (2, ""))
        self.assertIn("nothing was asked for, expected one of run, bench, info", ran.stderr)

    def test_help_and_version_are_said(self):
        for asked in ("-h", "--help", "help"):
            ran = self.python("-m", "sinew", asked)
            self.assertEqual((ran.returncode, ran.stderr), (0, ""))
            for name in ("run", "bench", "info"):
                self.assertRegex(ran.stdout, rf"\n  {name} +\w")
        ran = self.python("-m", "sinew", "--version")
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))
        self.assertEqual(ran.stdout, self.python("-m", "sinew.info", "--version").stdout)
        self.assertTrue(ran.stdout.startswith("sinew "), ran.stdout)

    def test_launcher_starts_python(self):
        program = "import sinew\nwith sinew.World() as w: print(w.communicator.objects.all_gather(w.rank))"
        ran = self.python("-m", "sinew.run", "-n", "2", sys.executable, "-c", program)
        self.assertEqual(ran.stdout.count("[0, 1]"), 2, ran.stderr)

    def test_module_of_the_launcher_is_the_function_too(self):
        program = "import sinew.run\nprint(sinew.run)\ntry: sinew.run(3, 1)\nexcept sinew.InvalidArgument as e: print(e)"
        self.assertIn("function is a int", self.python("-c", program).stdout)

    def test_import_needs_no_numpy_and_loads_no_library(self):
        program = (
            "import sys; sys.modules['numpy'] = None\n"
            "import sinew\nassert 'sinew._core' not in sys.modules\n"
            "from array import array\ndata = array('d', [1.0])\n"
            "world = sinew.World(); world.communicator.all_reduce(data); print(world.communicator.objects.all_gather('x'))\n"
            "try: world.communicator.all_reduce(data, op=max)\nexcept sinew.Unavailable as e: print(e)"
        )
        ran = self.python("-c", program)
        self.assertEqual(ran.stdout, "['x']\nall_reduce: op is a function, which needs NumPy: pip install numpy\n", ran.stderr)

    def test_program_may_end_with_a_world_and_calls_in_flight(self):
        for threads in ("single", "multiple"):
            program = (
                f"import sinew, threading; world = sinew.World(threads={threads!r})\n"
                "data = bytearray(8); work = world.communicator.start_recv(data, 0); work.then(print)"
            )
            ran = self.python("-c", program)
            self.assertEqual((ran.returncode, ran.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main()
