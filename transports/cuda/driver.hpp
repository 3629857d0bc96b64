#pragma once

#include <cstddef>
#include <cstdint>

#include <sinew/core/base/export.hpp>
#include <sinew/core/call/cost.hpp>
#include <sinew/transports/cuda/driver_types.hpp>

namespace sinew::cuda {

/// The functions of libcuda.so.1, the driver's own library. Each row: our name, its exported name, its arguments.
// clang-format off
#define SINEW_CUDA_FUNCTIONS(row)                                              \
  row(init, cuInit, (unsigned))                                                \
  row(error_text, cuGetErrorString, (Result, const char**))                    \
  row(device_count, cuDeviceGetCount, (int*))                                  \
  row(device_get, cuDeviceGet, (Device*, int))                                 \
  row(device_bus_id, cuDeviceGetPCIBusId, (char*, int, Device))                \
  row(device_attribute, cuDeviceGetAttribute, (int*, int, Device))             \
  row(retain_context, cuDevicePrimaryCtxRetain, (Context*, Device))            \
  row(current_device, cuCtxGetDevice, (Device*))                               \
  row(set_context, cuCtxSetCurrent, (Context))                                 \
  row(push_context, cuCtxPushCurrent_v2, (Context))                            \
  row(pop_context, cuCtxPopCurrent_v2, (Context*))                             \
  row(allocate, cuMemAlloc_v2, (Pointer*, std::size_t))                        \
  row(free, cuMemFree_v2, (Pointer))                                           \
  row(allocate_host, cuMemHostAlloc, (void**, std::size_t, unsigned))          \
  row(free_host, cuMemFreeHost, (void*))                                       \
  row(pointer_attribute, cuPointerGetAttribute, (void*, int, Pointer))         \
  row(copy_async, cuMemcpyAsync, (Pointer, Pointer, std::size_t, Stream))      \
  row(copy_2d_async, cuMemcpy2DAsync_v2, (const Copy2D*, Stream))              \
  row(set_bytes_async, cuMemsetD8Async, (Pointer, unsigned char, std::size_t, Stream)) \
  row(stream_priorities, cuCtxGetStreamPriorityRange, (int*, int*))            \
  row(stream_create, cuStreamCreateWithPriority, (Stream*, unsigned, int))     \
  row(stream_destroy, cuStreamDestroy_v2, (Stream))                            \
  row(stream_wait, cuStreamWaitEvent, (Stream, EventHandle, unsigned))         \
  row(capture_info, cuStreamGetCaptureInfo_v2, (Stream, int*, std::uint64_t*, void**, const void***, std::size_t*)) \
  row(exchange_capture_mode, cuThreadExchangeStreamCaptureMode, (int*))        \
  row(event_create, cuEventCreate, (EventHandle*, unsigned))                   \
  row(event_record, cuEventRecord, (EventHandle, Stream))                      \
  row(event_query, cuEventQuery, (EventHandle))                                \
  row(event_destroy, cuEventDestroy_v2, (EventHandle))                         \
  row(load_image, cuModuleLoadData, (Library*, const void*))                   \
  row(unload_image, cuModuleUnload, (Library))                                 \
  row(find_function, cuModuleGetFunction, (Function*, Library, const char*))   \
  row(launch, cuLaunchKernel, (Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, \
                               Stream, void**, void**))                        \
  row(ipc_export, cuIpcGetMemHandle, (IpcMemory*, Pointer))                    \
  row(ipc_import, cuIpcOpenMemHandle_v2, (Pointer*, IpcMemory, unsigned))      \
  row(ipc_close, cuIpcCloseMemHandle, (Pointer))
// clang-format on

struct Driver {
#define SINEW_CUDA_POINTER(name, symbol, arguments) Result(*name) arguments = nullptr;
  SINEW_CUDA_FUNCTIONS(SINEW_CUDA_POINTER)
#undef SINEW_CUDA_POINTER
};

/// Loaded and initialized on first use, once per process, and never unloaded.
/// Errors: Error{Unavailable}: no driver, one that lacks a function, no device that it can use; always the same.
SINEW_API const Driver& driver();
SINEW_API Availability available();

/// Throws Error{System} "cuMemAlloc_v2: out of memory" unless `result` is success.
SINEW_API void check(Result result, const char* call);

}  // namespace sinew::cuda
