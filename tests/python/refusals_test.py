"""Bad input: an exception with one clear sentence, and no other harm."""

import os
import pickle
import subprocess
import sys
import threading
import unittest

import ml_dtypes
import numpy as np

import sinew
from ranks import Meeting, in_threads, world_of_thread


class Refusals(unittest.TestCase):
    def setUp(self):
        self.world = sinew.World()
        self.addCleanup(self.world.close)
        self.c = self.world.communicator

    def refused(self, call, *parts, kind=sinew.InvalidArgument):
        with self.assertRaises(kind) as refusal:
            call()
        said = str(refusal.exception)
        self.assertNotIn("\n", said)
        for part in parts:
            self.assertIn(part, said)
        self.c.all_reduce(np.ones(3))  # the World still works
        return refusal.exception

    def test_classes_say_what_kind_an_error_is(self):
        error = self.refused(lambda: self.c.broadcast(np.ones(1), 7), "broadcast", "root is 7", "expected 0 to 0")
        self.assertIsInstance(error, ValueError)
        self.assertEqual(error.rank, -1)
        for kind, also in ((sinew.Timeout, TimeoutError), (sinew.PeerLost, ConnectionError), (sinew.SystemFailure, OSError)):
            made = kind("text", 3)
            self.assertTrue(isinstance(made, also) and isinstance(made, sinew.Error))
            again = pickle.loads(pickle.dumps(made))
            self.assertEqual((type(again), str(again), again.rank), (kind, "text", 3))

    def test_what_is_no_array_is_refused(self):
        self.refused(lambda: self.c.all_reduce([1.0]), "data is a list", "expected an array")
        self.refused(lambda: self.c.all_reduce(None), "data is a NoneType")
        self.refused(lambda: self.c.all_reduce(3.5), "data is a float")

        class Refuses:
            def __dlpack__(self, **_):
                raise BufferError("it is secret")

            def __dlpack_device__(self):
                return (1, 0)

        self.refused(lambda: self.c.all_reduce(Refuses()), "Refuses", "it is secret")

    def test_wrong_dtypes_are_refused(self):
        expected = "expected bool, int8 to int64"
        self.refused(lambda: self.c.all_reduce(np.array(["a"])), "data has dtype str", expected)
        self.refused(lambda: self.c.all_reduce(np.ones(1, np.longdouble)), np.dtype(np.longdouble).name, expected)
        self.refused(lambda: self.c.all_reduce(np.ones(1, ">f4")), "data has dtype float32, whose byte order is not this machine's")
        self.refused(lambda: self.c.plan("all_reduce", 1, np.dtype(">f4")), "dtype float32 has the other byte order")
        self.refused(lambda: self.c.all_reduce(np.array(["2020-01-01"], "M8[D]")), "datetime64", expected)
        self.refused(lambda: self.c.all_reduce(np.ones(1, ml_dtypes.float8_e4m3b11fnuz)), "float8_e4m3b11fnuz", expected)
        self.refused(lambda: self.c.all_gather(np.ones(1, "f4"), np.ones(1, "f8")), "float32 and float64", "equal ones")

    def test_messages_take_memory_of_any_dtype(self):
        for sent in (np.array(["2020-01-01", "2021-05-06"], "M8[D]"), np.array(7, "m8[s]"), np.ones(3, ">f4"),
                     np.array([("2020-01-01", 3)], [("when", "M8[s]"), ("what", "i2")])):
            received = np.zeros_like(sent)
            work = self.c.start_send(sent, 0)
            self.c.recv(received, 0)
            work.wait()
            np.testing.assert_array_equal(received, sent)
        mixed = np.zeros(2, [("when", "M8[s]"), ("what", object)])
        self.refused(lambda: self.c.send(mixed, 0), "data has dtype")
        self.refused(lambda: self.c.send(np.zeros(4, "M8[s]")[::2], 0), "data does not lie in memory as one piece")

    def test_arrays_of_objects_are_refused_by_messages_too(self):
        plain, fields = np.array([{}, []], object), np.zeros(2, [("O", "i4"), ("x", object)])
        for data in (plain, fields):
            self.refused(lambda: self.c.all_reduce(data), "data has objects of Python; comm.objects sends such")
            self.refused(lambda: self.c.send(data, 0), "data has objects of Python")
            self.refused(lambda: self.c.recv(data, 0), "out has objects of Python")
        named = np.zeros(2, [("O", "i4"), ("x", "f8")])
        work = self.c.start_send(np.ones(2, named.dtype), 0)
        self.c.recv(named, 0)
        work.wait()
        self.assertEqual(named["x"].sum(), 2)

    def test_read_only_arrays_are_refused_where_the_call_writes(self):
        fixed = np.ones(3)
        fixed.flags.writeable = False
        self.refused(lambda: self.c.all_reduce(fixed), "data is read-only, but the call writes to it")
        self.refused(lambda: self.c.all_reduce(np.ones(3), fixed), "out is read-only")
        self.refused(lambda: self.c.recv(b"abc", 0), "out is read-only")
        self.refused(lambda: self.c.all_gather(np.ones(3), [fixed]), "out[0] is read-only")
        self.refused(lambda: self.c.all_reduce(fixed.astype(ml_dtypes.bfloat16)[::2]), "one piece")
        out = np.zeros(3)
        self.c.all_reduce(fixed, out)
        self.assertEqual(out.sum(), 3)

    def test_strides_are_refused(self):
        for data in (np.ones(8)[::2], np.ones((3, 3)).T, np.ones((2, 4))[:, :2], np.ones(4, ml_dtypes.bfloat16)[::-1]):
            self.refused(lambda: self.c.all_reduce(data), "data does not lie in memory as one piece in C order")

    def test_wrong_lengths_are_refused(self):
        self.refused(lambda: self.c.all_reduce(np.ones(3), np.ones(4)), "all_reduce", "bytes")
        self.refused(lambda: self.c.all_gather(np.ones(3), np.ones(4)), "all_gather", "32 bytes")
        self.refused(lambda: self.c.all_gather(np.ones(3), []), "all_gather")
        self.refused(lambda: self.c.all_gather_v(np.ones(3), np.ones(3), [1, 2]), "all_gather_v", "one per rank")
        self.refused(lambda: self.c.all_gather_v(np.ones(3), np.ones(3), [-3]), "counts[0] is -3")
        self.refused(lambda: self.c.all_gather_v(np.ones(3), np.ones(3), [2**70]), "counts[0] is 1180591620717411303424")
        self.refused(lambda: self.c.all_gather_v(np.ones(3), np.ones(3), ["3"]), "counts[0] is '3'")
        self.refused(lambda: self.c.all_gather_v(np.ones(3), np.ones(3), 3), "counts is a int")
        self.refused(lambda: self.c.all_gather_v(np.ones(3), np.ones(2), [3]), "out has 16 bytes")

    def test_overlapping_arrays_are_refused(self):
        data = np.ones(8)
        self.refused(lambda: self.c.all_reduce(data[:4], data[2:6]), "overlap")

    def test_wrong_names_are_refused(self):
        self.refused(lambda: self.c.all_reduce(np.ones(1), op="plus"), "op is 'plus'", "sum", "max")
        self.refused(lambda: self.c.all_reduce(np.ones(1), op="user"), "op is 'user'")
        self.refused(lambda: self.c.all_reduce(np.ones(1), op=3), "op is a int")
        self.refused(lambda: self.c.all_reduce(np.ones(1), op="bor"), "not defined for f64")
        self.refused(lambda: self.c.all_reduce(np.ones(1, "c8"), op="max"), "complex")
        self.refused(lambda: self.c.all_reduce(np.ones(1), determinism="slow"), "determinism is 'slow'")
        self.refused(lambda: self.c.all_reduce(np.ones(1), codec="zip"), "codec is 'zip'")
        self.refused(lambda: self.c.all_reduce(np.ones(1), codec=4), "codec is a int")
        self.refused(lambda: self.c.all_reduce(np.ones(1), label=4), "label is no str")
        self.refused(lambda: self.c.all_reduce(np.ones(1), after=4), "the arrays lie on the host")
        self.refused(lambda: self.c.all_reduce(np.ones(1), after="s"), "after is no CUDA stream")
        self.refused(lambda: self.c.all_reduce(np.ones(1), timeout=0), "timeout is 0 s")
        self.refused(lambda: self.c.all_reduce(np.ones(1), timeout=float("nan")), "timeout is nan s")
        self.refused(lambda: self.c.all_reduce(np.ones(1), timeout="soon"), "timeout is a str")
        self.refused(lambda: self.c.plan("all_sum", 3), "collective is 'all_sum'")
        self.refused(lambda: self.c.plan("all_reduce", 3, "f3"), "dtype is 'f3'")
        self.refused(lambda: self.c.plan("all_reduce", 3, np.longdouble), "dtype is 'longdouble'", "expected bool")
        self.refused(lambda: self.c.plan(np.float32, 3), "collective is a type, expected a name")
        self.refused(lambda: sinew.World(config={"SINEW_TIMEOUT": "5s"}), "config is a dict, expected a sinew.Config")
        self.refused(lambda: sinew.World(threads="many"), "threads is 'many'")
        self.refused(lambda: self.c.group([3]), "messages[0] is no Message")
        self.refused(lambda: self.c.send(np.ones(1), 4), "to_rank is 4")
        self.refused(lambda: self.c.all_to_all([np.ones(1)], np.ones(1)), "expected both or none")
        self.refused(lambda: self.c.gather(np.ones(1), None), "out is None at the root")
        self.refused(lambda: self.c.scatter(None, np.ones(1)), "data is None at the root")
        self.refused(lambda: self.c.objects.scatter([1, 2]), "objs has 2 objects, expected 1")
        self.refused(lambda: self.c.plan("all_reduce", 3).run(np.ones(3)), "data has dtype float64, and the plan is for float32")

    def test_wrong_types_of_arguments_are_type_errors(self):
        for call in (lambda: self.c.broadcast(np.ones(1), "0"), lambda: self.c.send(np.ones(1), 0, -1),
                     lambda: self.c.all_reduce(), lambda: self.c.all_reduce(np.ones(1), typo=1),
                     lambda: sinew.World(tls=True), lambda: self.world.allocate(-1), lambda: sinew.Communicator()):
            with self.assertRaises(TypeError):
                call()

    def test_too_long_message_is_truncated(self):
        work = self.c.start_send(np.ones(4), 0)
        with self.assertRaises(sinew.Truncated):
            self.c.recv(np.ones(2), 0)
        work.wait()

    def test_every_method_says_that_the_world_is_closed(self):
        split = self.c.split(0)
        plan = self.c.plan("all_reduce", 1)
        work = self.c.start_all_reduce(np.ones(1))
        self.world.close()
        self.world.close()
        self.assertTrue(self.world.closed)
        one = np.ones(1)
        calls = [lambda: self.c.all_reduce(one), lambda: split.barrier(), lambda: plan.run(np.ones(1, "f4")), self.world.facts,
                 lambda: self.c.split(0), lambda: self.world.subgroup([0], "x"), lambda: self.world.allocate(1),
                 self.world.cluster, self.world.transports, self.world.poll, lambda: self.world.abort("x"),
                 lambda: self.c.objects.all_gather(1), lambda: self.c.verdict(), lambda: self.c.plan("barrier"), self.c.stats]
        for call in calls:
            with self.assertRaisesRegex(sinew.InvalidArgument, "closed"):
                call()
        self.assertTrue(work.wait())
        self.assertEqual((self.world.rank, self.world.size, self.c.rank), (0, 1, 0))
        self.world = sinew.World()
        self.c = self.world.communicator

    def test_closed_communicator_says_so(self):
        with self.c.split(0) as half:
            half.barrier()
        self.refused(half.barrier, "the communicator is closed")

    def test_fork_child_is_refused(self):
        work = self.c.start_all_reduce(np.ones(1))
        dropped = self.c.start_recv(np.ones(1), 0)
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            said = []
            for call in (lambda: self.c.all_reduce(np.ones(1)), self.world.facts, work.test, lambda: self.c.split(0)):
                try:
                    call()
                    said.append("nothing")
                except sinew.InvalidArgument as error:
                    said.append(str(error))
            del dropped
            self.world.close()
            os.write(writer, "|".join(said).encode())
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as answers:
            said = answers.read().split("|")
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual(len(said), 4)
        for each in said:
            self.assertIn("fork", each)
        self.c.send(np.ones(1), 0)
        self.assertTrue(work.wait() and dropped.wait())

    def test_subinterpreters_are_refused(self):
        program = """if True:
            try:
                import _interpreters as interpreters
            except ImportError:
                import _xxsubinterpreters as interpreters
            other = interpreters.create()
            interpreters.run_string(other, '''
import sinew
try:
    sinew.World()
except ImportError as error:
    print(error, flush=True)
''')
            interpreters.destroy(other)
            """
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("subinterpreter", done.stdout)

    def test_second_thread_on_a_single_world_is_refused(self):
        meeting = Meeting(2)
        entered, refusals = threading.Event(), []

        def second():
            with world_of_thread(meeting, 1, 2) as world:
                entered.wait()
                world.communicator.barrier()

        peer = threading.Thread(target=second)
        peer.start()
        with world_of_thread(meeting, 0, 2) as world:
            waiter = threading.Thread(target=world.communicator.barrier)
            waiter.start()
            while not refusals:  # until the other thread is inside
                try:
                    world.communicator.verdict()
                except sinew.InvalidArgument as error:
                    refusals.append(str(error))
            with self.assertRaisesRegex(sinew.InvalidArgument, "a call is inside this World"):
                world.close()
            entered.set()
            waiter.join()
            peer.join()
        self.assertIn('World(threads="multiple")', refusals[0])

    def test_different_calls_are_a_mismatch_on_all_ranks(self):
        def rank(world):
            with self.assertRaises(sinew.Mismatch) as refusal:
                if world.rank == 0:
                    world.communicator.all_reduce(np.ones(2))
                else:
                    world.communicator.broadcast(np.ones(3))
            return str(refusal.exception)

        for said in in_threads(2, rank):
            self.assertIn("all_reduce", said)
            self.assertIn("broadcast", said)
            self.assertIn("(with SINEW_PYTHON_SITES=1 calls are named by their lines of Python)", said)

    def test_mismatch_names_the_lines_of_all_ranks_where_that_is_asked_for(self):
        config = sinew.Config()
        config.python_sites = True

        def rank(world):
            with self.assertRaises(sinew.Mismatch) as refusal:
                world.communicator.all_reduce(np.ones(2 + world.rank))
            return str(refusal.exception)

        for said in in_threads(2, rank, config=config):
            self.assertEqual(said.count("at refusals_test.py:"), 2, said)
            self.assertNotIn("SINEW_PYTHON_SITES", said)

    def test_late_rank_is_a_timeout_that_names_it_and_the_line(self):
        def rank(world):
            if world.rank == 0:
                with self.assertRaises(sinew.Timeout) as refusal:
                    world.communicator.all_reduce(np.ones(1), timeout=0.7)
                return refusal.exception
            threading.Event().wait(1.5)
            with self.assertRaises(sinew.Error):
                world.communicator.all_reduce(np.ones(1))

        error, _ = in_threads(2, rank)
        self.assertEqual(error.rank, 1)
        self.assertIn("refusals_test.py:", str(error))

    def test_stream_priority_is_normal_or_high(self):
        def rank(world):
            for priority in ("normal", "high"):
                world.communicator.set_stream_priority(priority)
            with self.assertRaisesRegex(sinew.Error, "set_stream_priority: priority is 'low', expected normal or high"):
                world.communicator.set_stream_priority("low")
            with self.assertRaisesRegex(Exception, "set_stream_priority: priority"):
                world.communicator.set_stream_priority(1)
            world.communicator.barrier()

        in_threads(2, rank)

    def test_abort_ends_the_calls_of_all_ranks(self):
        def rank(world):
            if world.rank == 0:
                world.communicator.abort("no more data")
            with self.assertRaisesRegex(sinew.Aborted, "no more data"):
                world.communicator.barrier()

        in_threads(2, rank)

    def test_exception_in_a_with_block_ends_the_others(self):
        meeting, said = Meeting(2), []

        def fails():
            try:
                with world_of_thread(meeting, 0, 2):
                    raise ValueError("no such file")
            except ValueError as error:
                said.append(str(error))

        failing = threading.Thread(target=fails)
        failing.start()
        with self.assertRaisesRegex(sinew.Aborted, "ValueError: no such file"):
            with world_of_thread(meeting, 1, 2) as world:
                world.communicator.barrier()
        failing.join()
        self.assertEqual(said, ["no such file"])

    def test_reduction_that_throws_ends_the_communicator(self):
        def rank(world):
            def fails(a, b):
                raise KeyError("weights")

            with self.assertRaises((KeyError, sinew.Aborted)):
                world.communicator.all_reduce(np.ones(3), op=fails)
            with self.assertRaises(sinew.Aborted):
                world.communicator.barrier()
                world.communicator.barrier()

        in_threads(2, rank)

    def test_reduction_of_the_wrong_shape_is_said(self):
        def rank(world):
            with self.assertRaises((ValueError, sinew.Aborted)) as refusal:
                world.communicator.all_reduce(np.ones(3), op=lambda a, b: (a + b)[:1])
            return str(refusal.exception)

        self.assertTrue(any("returned an array of shape (1,)" in said for said in in_threads(2, rank)))

    def test_wrong_exchanges_are_said(self):
        with self.assertRaisesRegex(sinew.InvalidArgument, "rank 2 of 2"):
            sinew.World.create(2, 2, lambda mine: [mine])
        with self.assertRaisesRegex(sinew.InvalidArgument, "returned 1 elements, expected 2"):
            sinew.World.create(0, 2, lambda mine: [mine])
        with self.assertRaisesRegex(sinew.InvalidArgument, "returned a str in its list"):
            sinew.World.create(0, 1, lambda mine: ["x"])
        with self.assertRaisesRegex(ZeroDivisionError, "zero"):
            sinew.World.create(0, 1, lambda mine: 1 / 0)
        with self.assertRaisesRegex(sinew.InvalidArgument, "no function"):
            sinew.World.create(0, 1, 3)


if __name__ == "__main__":
    unittest.main()
