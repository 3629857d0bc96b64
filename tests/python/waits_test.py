"""Waits: signals are served, other threads run, coroutines and functions are told, and arrays outlive their calls."""

import asyncio
import gc
import os
import signal
import threading
import time
import unittest
import weakref

import numpy as np

import sinew
from ranks import in_threads


class SlowSender:
    """Another process that sends itself a signal: a thread that signals this process after a while."""

    def __init__(self, seconds, number):
        self._timer = threading.Timer(seconds, os.kill, (os.getpid(), number))

    def __enter__(self):
        self._timer.start()

    def __exit__(self, *_):
        self._timer.join()


class Waits(unittest.TestCase):
    def setUp(self):
        self.world = sinew.World(timeout=20)
        self.addCleanup(self.world.close)
        self.c = self.world.communicator

    def test_handlers_of_signals_run_during_a_wait(self):
        came = []

        def handler(*_):
            came.append(time.monotonic())

        previous = signal.signal(signal.SIGUSR1, handler)
        self.addCleanup(signal.signal, signal.SIGUSR1, previous)
        data = np.zeros(1)
        work = self.c.start_recv(data, 0)
        with SlowSender(0.2, signal.SIGUSR1):
            self.assertFalse(work.wait(timeout=1.0))
            ended = time.monotonic()
        self.assertEqual(len(came), 1)
        self.assertLess(came[0], ended - 0.5)
        self.c.send(np.ones(1), 0)
        self.assertTrue(work.wait())
        self.assertEqual(data[0], 1)

    def test_ctrl_c_ends_the_wait_and_the_call_goes_on(self):
        data = np.zeros(1)
        began = time.monotonic()
        with SlowSender(0.2, signal.SIGINT), self.assertRaises(KeyboardInterrupt):
            self.c.recv(data, 0)
        self.assertLess(time.monotonic() - began, 1.0)
        self.c.send(np.ones(1), 0)  # the interrupted call takes it
        self.c.barrier()
        self.assertEqual(data[0], 1)

    def test_array_of_an_interrupted_call_lives_until_the_call_has_ended(self):
        data = bytearray(8)
        with SlowSender(0.2, signal.SIGINT), self.assertRaises(KeyboardInterrupt):
            self.c.recv(data, 0)
        with self.assertRaises(BufferError):  # the call holds its memory
            data.extend(b"more")
        self.c.send(b"12345678", 0)
        self.c.barrier()
        data.extend(b"more")
        self.assertEqual(data, b"12345678more")

    def test_array_of_a_dropped_work_lives_until_the_call_has_ended(self):
        class Tracked(np.ndarray):
            pass

        data = np.zeros(1).view(Tracked)
        alive = weakref.ref(data)
        work = self.c.start_recv(data, 0)
        del data, work
        gc.collect()
        self.assertIsNotNone(alive())
        self.c.send(np.ones(1), 0)
        self.c.barrier()
        gc.collect()
        self.assertIsNone(alive())

    def test_ctrl_c_ends_a_start_that_waits_for_ranks(self):
        meeting = threading.Event()

        def never(mine):
            meeting.wait()
            raise RuntimeError("the test is over")

        began = time.monotonic()
        with SlowSender(0.2, signal.SIGINT), self.assertRaises(KeyboardInterrupt):
            sinew.World.create(0, 2, never)
        self.assertLess(time.monotonic() - began, 1.0)
        meeting.set()

    def test_other_threads_run_during_a_wait(self):
        counted = []
        work = self.c.start_recv(np.zeros(1), 0)
        over = threading.Event()

        def count():
            while not over.is_set():
                counted.append(1)
                time.sleep(0.001)

        counter = threading.Thread(target=count)
        counter.start()
        self.assertFalse(work.wait(timeout=0.5))
        over.set()
        counter.join()
        self.assertGreater(len(counted), 50)
        self.c.send(np.zeros(1), 0)
        work.wait()

    def test_close_waits_for_calls_in_flight(self):
        data = np.zeros(1)
        work = self.c.start_recv(data, 0)
        sent = self.c.start_send(np.ones(1), 0)
        self.world.close()
        self.assertEqual(data[0], 1)
        self.assertTrue(work.wait() and sent.wait())

    def test_failure_is_raised_at_each_wait_and_told_to_functions(self):
        told = []
        work = self.c.start_recv(np.zeros(1), 0, timeout=0.3)
        work.then(told.append)
        for _ in range(2):
            with self.assertRaises(sinew.Timeout):
                work.wait()
        while not told:
            time.sleep(0.01)
        self.assertIsInstance(told[0], sinew.Timeout)
        work.then(told.append)
        self.assertIsInstance(told[1], sinew.Timeout)
        self.world.close()

    def test_all_works_are_waited_for_before_the_first_failure_is_raised(self):
        received = np.zeros(1)
        works = [self.c.start_recv(np.zeros(1), 0, tag=1), self.c.start_recv(received, 0), self.c.start_send(np.ones(1), 0)]
        self.assertFalse(sinew.wait_all(works, timeout=0.1))
        sent = self.c.start_send(np.ones(4), 0, tag=1)
        with self.assertRaises(sinew.Truncated):
            sinew.wait_all(works)
        self.assertEqual((received[0], [work.done for work in works]), (1, [True] * 3))
        self.assertTrue(sinew.wait_all([sent, *works[1:]]) and sinew.wait_all([]))

    def test_calls_are_named_by_their_lines_where_that_is_asked_for(self):
        config = sinew.Config()
        config.python_sites = True
        with sinew.World(config=config) as world:
            work = world.communicator.start_recv(np.zeros(1), 0, timeout=0.1, label="weights")
            with self.assertRaisesRegex(sinew.Timeout, r"waits_test.py:\d+, weights"):
                work.wait()

    def test_log_level_is_a_name(self):
        sinew.set_log_level("error")
        sinew.set_log_level("warning")
        with self.assertRaisesRegex(sinew.InvalidArgument, "level is 'loud'"):
            sinew.set_log_level("loud")

    def test_function_that_throws_is_reported_and_harms_nothing(self):
        import sys

        reported = []
        hook, sys.unraisablehook = sys.unraisablehook, lambda what: reported.append(str(what.exc_value))
        self.addCleanup(setattr, sys, "unraisablehook", hook)

        def fails(_):
            raise ValueError("from a function")

        work = self.c.start_all_reduce(np.ones(1))
        work.wait()
        work.then(fails)
        self.assertEqual(reported, ["from a function"])

    def test_tests_make_progress_until_the_end(self):
        data = np.zeros(1)
        work = self.c.start_recv(data, 0)
        self.assertFalse(work.test() or work.done)
        self.assertEqual(work.source, -1)
        sent = self.c.start_send(np.ones(1), 0)
        while not work.test():
            pass
        self.assertTrue(work.done and sent.wait())
        self.assertEqual((data[0], work.source), (1, 0))

    def awaits(self, threads):
        def rank(world):
            c = world.communicator
            ticks = []

            async def tick():
                while True:
                    ticks.append(1)
                    await asyncio.sleep(0.001)

            async def main():
                ticking = asyncio.create_task(tick())
                if world.rank == 1:
                    await asyncio.sleep(0.2)
                data = np.ones(3)
                await c.start_all_reduce(data)
                first, second = np.zeros(1), np.ones(1)
                works = [c.start_recv(first, 1 - world.rank), c.start_send(second, 1 - world.rank)]
                await asyncio.gather(*works)
                ticking.cancel()
                return data.sum() + first[0]

            return asyncio.run(main()), len(ticks)

        for total, ticks in in_threads(2, rank, threads=threads):
            self.assertEqual(total, 7)
            self.assertGreater(ticks, 20)

    def test_coroutines_await_calls_of_a_world_for_one_thread(self):
        self.awaits("single")

    def test_coroutines_await_calls_of_a_world_for_many_threads(self):
        self.awaits("multiple")

    def test_awaited_failure_is_raised(self):
        async def main():
            with self.assertRaises(sinew.Timeout):
                await self.c.start_recv(np.zeros(1), 0, timeout=0.3)

        asyncio.run(main())

    def test_many_threads_use_a_world_with_reductions_of_their_own(self):
        def rank(world):
            groups = [world.communicator.split(0, name=f"group {i}") for i in range(4)]
            sums = [None] * 4

            def user(i):
                for _ in range(50):
                    data = np.full(10, float(world.rank + i))
                    groups[i].all_reduce(data, op=np.add if i % 2 else "sum")
                    sums[i] = data[0]

            users = [threading.Thread(target=user, args=(i,)) for i in range(4)]
            for thread in users:
                thread.start()
            for thread in users:
                thread.join()
            return sums

        for sums in in_threads(2, rank, threads="multiple"):
            self.assertEqual(sums, [1, 3, 5, 7])

    def test_call_in_a_signal_handler_during_a_call_is_refused(self):
        refused = []

        def handler(*_):
            try:
                self.c.barrier()
            except sinew.InvalidArgument as error:
                refused.append(str(error))

        previous = signal.signal(signal.SIGUSR1, handler)
        self.addCleanup(signal.signal, signal.SIGUSR1, previous)
        work = self.c.start_recv(np.zeros(1), 0)
        with SlowSender(0.2, signal.SIGUSR1):
            self.assertFalse(work.wait(timeout=0.6))
        self.assertIn("signal handler", refused[0])
        self.c.send(np.zeros(1), 0)
        work.wait()


if __name__ == "__main__":
    unittest.main()
