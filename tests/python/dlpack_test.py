"""Tensors that show their memory by DLPack alone, on the host and on a device."""

import gc
import unittest

import numpy as np

import sinew
from fakes.fake_tensor import CUDA, Cuda, Tensor
from ranks import dtype, in_threads, values

KINDS = {
    "bool": ("b", 8), "int8": ("i", 8), "int16": ("i", 16), "int32": ("i", 32), "int64": ("i", 64), "uint8": ("u", 8),
    "uint16": ("u", 16), "uint32": ("u", 32), "uint64": ("u", 64), "float16": ("f", 16), "float32": ("f", 32), "float64": ("f", 64),
    "bfloat16": ("bfloat", 16), "complex64": ("c", 64), "complex128": ("c", 128), "float8_e4m3fn": ("float8_e4m3fn", 8),
    "float8_e5m2": ("float8_e5m2", 8),
}


def tensor(array, **options):
    return Tensor(array.ctypes.data, array.size, *KINDS[array.dtype.name], owner=array, **options)


class Host(unittest.TestCase):
    def test_every_dtype_is_summed_in_place(self):
        def rank(world):
            for name in KINDS:
                data = values(name, 100, world.rank, most=1)
                expected = (values(name, 100, 0, most=1) + values(name, 100, 1, most=1)).astype(dtype(name))
                world.communicator.all_reduce(tensor(data))
                np.testing.assert_array_equal(data.view(np.uint8), expected.view(np.uint8))

        in_threads(2, rank)
        gc.collect()
        self.assertEqual(Tensor.exported, {})

    def test_memory_is_held_until_the_call_has_ended(self):
        with sinew.World() as world:
            work = world.communicator.start_recv(tensor(np.zeros(1)), 0)
            gc.collect()
            self.assertEqual(len(Tensor.exported), 1)
            world.communicator.send(np.ones(1), 0)
            work.wait()
            gc.collect()
            self.assertEqual(len(Tensor.exported), 0)

    def test_wrong_producers_are_refused(self):
        class Producer:
            def __init__(self, make):
                self.make = make

            def __dlpack__(self, **_):
                return self.make()

            def __dlpack_device__(self):
                return (1, 0)

        data = np.ones(4)
        twice = data.__dlpack__()

        def raises():
            raise KeyError("planted")

        with sinew.World() as world:
            world.communicator.all_reduce(Producer(lambda: twice))
            for wrong, said in (
                (Producer(lambda: twice), "capsule 'used_dltensor', expected .* used once"),
                (Producer(lambda: None), "returned a NoneType, expected a capsule"),
                (Producer(raises), "shows no memory: .*planted"),
                (Tensor(data.ctypes.data, -1, "f", 64, data), "a shape in DLPack that no memory has"),
                (Tensor(data.ctypes.data, 2**62, "f", 64, data), "a shape in DLPack that no memory has"),
            ):
                with self.assertRaisesRegex(sinew.InvalidArgument, said):
                    world.communicator.all_reduce(wrong)
        gc.collect()
        self.assertEqual(Tensor.exported, {})

    def test_what_cannot_be_used_is_refused(self):
        with sinew.World() as world:
            data = np.ones(4)
            for wrong, said in (
                (tensor(data, stride=2), "one piece"),
                (Tensor(data.ctypes.data, 4, "f", 128, data), "DLPack's code 2 with 128 bits"),
                (Tensor(data.ctypes.data, 8, "i", 24, data), "DLPack's code 0 with 24 bits"),
                (Tensor(data.ctypes.data, 4, "u", 0, data), "DLPack's code 1 with 0 bits"),
                (tensor(data, device=(8, 0)), "type 8"),
            ):
                with self.assertRaisesRegex(sinew.InvalidArgument, said):
                    world.communicator.all_reduce(wrong)
        gc.collect()
        self.assertEqual(Tensor.exported, {})


class Device(unittest.TestCase):
    def test_calls_start_after_the_work_of_a_stream_and_streams_wait_for_them(self):
        def rank(world):
            cuda = Cuda(world.rank)
            count = 1000
            host = np.full(count, world.rank + 1, np.float32)
            result = np.zeros(count, np.float32)
            memory = cuda.allocate(4 * count)
            stream = cuda.stream()
            on_device = Tensor(memory, count, "f", 32, device=(CUDA, world.rank))
            cuda.copy(memory, host.ctypes.data, 4 * count, stream)  # it has not run when the call starts
            work = world.communicator.start_all_reduce(on_device, after=stream)
            work.order(stream, world.rank)
            cuda.copy(result.ctypes.data, memory, 4 * count, stream)
            cuda.synchronize(stream)
            work.wait()
            self.assertEqual(set(result), {3.0})
            with self.assertRaisesRegex(sinew.InvalidArgument, "on the host"):
                world.communicator.all_reduce(host, on_device)
            world.communicator.all_reduce(host)

        in_threads_of_devices(rank)

    def test_registered_memory_of_a_communicator_is_a_tensor(self):
        def rank(world):
            memory = world.communicator.allocate(4096)
            self.assertEqual(memory.__dlpack_device__(), (CUDA, world.rank))
            with self.assertRaisesRegex(BufferError, "DLPack"):
                memoryview(memory)
            world.communicator.broadcast(memory, root=1)
            world.communicator.barrier()
            del memory

        in_threads_of_devices(rank)


def in_threads_of_devices(body):
    """Two ranks, each with a device of its own."""
    in_threads(2, body, device_of_rank=True)


if __name__ == "__main__":
    unittest.main()
