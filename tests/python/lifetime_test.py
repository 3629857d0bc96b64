"""References, memory and descriptors after very many calls and Worlds."""

import gc
import os
import sys
import tracemalloc
import unittest

import ml_dtypes
import numpy as np

import sinew

CALLS = 100_000
WORLDS = int(os.environ["TEST_WORLDS"])


def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Leaks(unittest.TestCase):
    def test_calls_leak_no_reference_and_no_memory(self):
        with sinew.World() as world:
            c = world.communicator
            data, narrow, out = np.ones(4), np.ones(4, ml_dtypes.bfloat16), np.empty(4)
            label, op = "label " + str(CALLS), "max" + ""
            plan = c.plan("all_reduce", 4, "float64")
            counts = [4]
            kept = (data, narrow, out, label, op, plan, counts, c, world, np.add)

            def calls(number):
                for _ in range(number):
                    c.all_reduce(data, label=label, op=op)
                    c.all_reduce(narrow)
                    c.all_gather(data, [out])
                    c.all_gather_v(data, out, counts)
                    c.start_all_reduce(data, out).wait()
                    c.start_barrier()
                    plan.run(data)
                    c.all_reduce(data, op=np.add)
                    c.sendrecv(data, 0, out, 0)
                    for wrong in (3, data[::2]):
                        try:
                            c.all_reduce(wrong)
                        except sinew.InvalidArgument:
                            pass

            calls(2000)
            gc.collect()
            references = [sys.getrefcount(each) for each in kept]
            objects, resident = len(gc.get_objects()), resident_bytes()
            tracemalloc.start()
            calls(10)
            gc.collect()
            before, _ = tracemalloc.get_traced_memory()
            calls(CALLS // 10)  # ten calls each time
            gc.collect()
            after, _ = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            self.assertEqual([sys.getrefcount(each) for each in kept], references)
            self.assertLess(len(gc.get_objects()) - objects, 100)
            self.assertLess(after - before, 50_000)
            self.assertLess(resident_bytes() - resident, 8 << 20)

    def test_worlds_leak_no_descriptor_thread_or_memory(self):
        def worlds(number):
            for i in range(number):
                world = sinew.World(threads="multiple" if i % 10 == 0 else "single")
                world.communicator.all_reduce(np.ones(2))
                if i % 2:
                    world.close()

        worlds(200)
        gc.collect()
        descriptors, threads, resident = len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task")), resident_bytes()
        worlds(WORLDS)
        gc.collect()
        self.assertEqual(len(os.listdir("/proc/self/fd")), descriptors)
        self.assertEqual(len(os.listdir("/proc/self/task")), threads)
        self.assertLess(resident_bytes() - resident, 32 << 20)


if __name__ == "__main__":
    unittest.main()
