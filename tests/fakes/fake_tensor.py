"""Tensors that show their memory by DLPack alone: of the host, and of the fake CUDA of tests/fakes/fake_cuda.cpp.

Memory of the fake device faults if the host touches it, and its streams run late.
"""

import ctypes

CPU, CUDA = 1, 2
CODES = {"i": 0, "u": 1, "f": 2, "bfloat": 4, "c": 5, "b": 6, "float8_e4m3fn": 10, "float8_e5m2": 12}


class _DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64),
    ]


class _DLManagedTensor(ctypes.Structure):
    pass


_Deleter = ctypes.CFUNCTYPE(None, ctypes.POINTER(_DLManagedTensor))
_DLManagedTensor._fields_ = [("tensor", _DLTensor), ("context", ctypes.c_void_p), ("deleter", _Deleter)]

_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class Tensor:
    """A tensor of one dimension over memory at `address`. `owner` has the memory."""

    exported = {}  # by address of the managed tensor: what it needs

    def __init__(self, address, count, code, bits, owner=None, device=(CPU, 0), stride=1):
        self.parts = (address, count, code, bits, owner, device, stride)

    def __dlpack__(self, **_):
        address, count, code, bits, owner, device, stride = self.parts
        managed = _DLManagedTensor()
        shape, strides = (ctypes.c_int64 * 1)(count), (ctypes.c_int64 * 1)(stride)
        managed.tensor = _DLTensor(address, *device, 1, CODES[code], bits, 1, shape, strides, 0)

        def free(pointer):
            Tensor.exported.pop(ctypes.addressof(pointer.contents))

        managed.deleter = _Deleter(free)
        Tensor.exported[ctypes.addressof(managed)] = (managed, shape, strides, owner)
        return _new_capsule(ctypes.addressof(managed), b"dltensor", None)

    def __dlpack_device__(self):
        return self.parts[5]


class Cuda:
    """Device memory and streams, by the libcuda.so.1 that the loader finds. It serves the thread that makes it."""

    def __init__(self, device):
        self.device = device
        self.lib = ctypes.CDLL("libcuda.so.1")
        context = ctypes.c_void_p()
        self.lib.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
        self.require(self.lib.cuCtxPushCurrent_v2(context))

    def require(self, result):
        if result != 0:
            raise RuntimeError(f"the fake CUDA returned {result}")

    def stream(self):
        made = ctypes.c_void_p()
        self.require(self.lib.cuStreamCreateWithPriority(ctypes.byref(made), 1, 0))
        return made.value

    def allocate(self, length):
        made = ctypes.c_uint64()
        self.require(self.lib.cuMemAlloc_v2(ctypes.byref(made), ctypes.c_size_t(length)))
        return made.value

    def copy(self, to, source, length, stream):
        """Enqueues a copy; it has not happened when this returns."""
        self.require(self.lib.cuMemcpyAsync(ctypes.c_uint64(to), ctypes.c_uint64(source), ctypes.c_size_t(length), ctypes.c_void_p(stream)))

    def synchronize(self, stream):
        event = ctypes.c_void_p()
        self.require(self.lib.cuEventCreate(ctypes.byref(event), 2))
        self.require(self.lib.cuEventRecord(event, ctypes.c_void_p(stream)))
        while self.lib.cuEventQuery(event) != 0:
            pass
        self.require(self.lib.cuEventDestroy_v2(event))
