#pragma once

#include <cstddef>

// What this library uses of the CUDA driver's interface, in our own words, so that it compiles where CUDA is not
// installed. tests/transports/cuda/driver_header_check.cpp compares it with cuda.h where that exists.
namespace sinew::cuda {

using Result = int;
using Device = int;
using Context = struct ContextOpaque*;
using Stream = struct StreamOpaque*;
using EventHandle = struct EventOpaque*;
using Library = struct LibraryOpaque*;  // CUmodule
using Function = struct FunctionOpaque*;
using Pointer = unsigned long long;  // CUdeviceptr

inline constexpr Result kSuccess = 0;
inline constexpr Result kNotReady = 600;

inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventDisableTiming = 2;
inline constexpr int kNotCapturing = 0;    // CU_STREAM_CAPTURE_STATUS_NONE
inline constexpr int kCaptureBroken = 2;   // CU_STREAM_CAPTURE_STATUS_INVALIDATED
inline constexpr int kCaptureRelaxed = 2;  // CU_STREAM_CAPTURE_MODE_RELAXED
inline constexpr unsigned kHostAllocPortable = 1;
inline constexpr unsigned kIpcLazyPeerAccess = 1;

inline constexpr int kPointerMemoryType = 2;     // CU_POINTER_ATTRIBUTE_MEMORY_TYPE
inline constexpr int kPointerBufferId = 7;       // CU_POINTER_ATTRIBUTE_BUFFER_ID
inline constexpr int kPointerDeviceOrdinal = 9;  // CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
inline constexpr int kPointerRangeStart = 11;    // CU_POINTER_ATTRIBUTE_RANGE_START_ADDR
inline constexpr unsigned kMemoryHost = 1;
inline constexpr unsigned kMemoryDevice = 2;
inline constexpr unsigned kMemoryUnified = 4;

inline constexpr int kAttributeMultiprocessors = 16;  // CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
inline constexpr int kAttributeMajor = 75;            // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
inline constexpr int kAttributeMinor = 76;            // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR

struct IpcMemory {
  char reserved[64];
};

/// CUDA_MEMCPY2D. With memory types "unified" the driver finds out what an address is.
struct Copy2D {
  std::size_t from_x, from_y;
  unsigned from_type;
  const void* from_host;
  Pointer from_device;
  void* from_array;
  std::size_t from_pitch;
  std::size_t to_x, to_y;
  unsigned to_type;
  void* to_host;
  Pointer to_device;
  void* to_array;
  std::size_t to_pitch;
  std::size_t width, height;
};

}  // namespace sinew::cuda
