#pragma once

#include <climits>
#include <cstddef>

// The part of NCCL's C interface that this module uses, declared here so that it compiles without NCCL and CUDA.
// tests/transports/nccl/nccl_api_check.cpp holds it against NCCL's own header where there is one.
namespace sinew::nccl {

struct OpaqueComm;
using Comm = OpaqueComm*;
using Stream = void*;  ///< cudaStream_t
using Window = void*;  ///< ncclWindow_t: a handle

struct UniqueId {
  char internal[128];
};

enum class Result : int {
  Success,
  UnhandledCudaError,
  SystemError,
  InternalError,
  InvalidArgument,
  InvalidUsage,
  RemoteError,
  InProgress
};
enum class DataType : int {
  Int8,
  Uint8,
  Int32,
  Uint32,
  Int64,
  Uint64,
  Float16,
  Float32,
  Float64,
  Bfloat16,
  Float8e4m3,
  Float8e5m2
};
/// Values from 5 on are operators made by red_op_create_pre_mul_sum.
enum class RedOp : int { Sum, Prod, Max, Min, Avg };
enum class ScalarResidence : int { Device, HostImmediate };

inline constexpr int kUndefined = INT_MIN;
inline constexpr int kColorless = -1;       ///< of a rank that comes into no part of a split
inline constexpr int kSymmetricWindow = 1;  ///< calls are given a window on all ranks, at equal offsets

constexpr int version_code(int major, int minor, int patch) noexcept { return major * 10000 + minor * 100 + patch; }
/// The oldest that this module works with.
inline constexpr int kOldest = version_code(2, 18, 0);
inline constexpr int kFirstWithFloat8 = version_code(2, 24, 0);
inline constexpr int kFloat8Capability = 90;  ///< of a device whose kernels compute them
inline constexpr int kFirstWithRegistration = version_code(2, 19, 0);
inline constexpr int kFirstWithLaunchOrder = version_code(2, 26, 0);  // NCCL_LAUNCH_ORDER_IMPLICIT
inline constexpr int kFirstWithWindows = version_code(2, 27, 0);
inline constexpr int kFirstWithAllToAll = version_code(2, 28, 0);

/// As of 2.18; later versions take it for what it says it is and use their defaults for what they have beyond it.
struct CommConfig {
  std::size_t size = sizeof(CommConfig);
  unsigned int magic = 0xcafebeef;
  unsigned int version = kOldest;
  int blocking = kUndefined;
  int cga_cluster_size = kUndefined;
  int min_ctas = kUndefined;
  int max_ctas = kUndefined;
  const char* net_name = nullptr;
  int split_share = kUndefined;
};

/// The functions of one library. Those of later versions than the oldest, and those that a build may leave out, are
/// null where it has none. In a communicator that does not block, comm_split and comm_window_register may return
/// Success before they are through; comm_get_async_error knows.
struct Api {
  Result (*get_version)(int* version);
  Result (*get_unique_id)(UniqueId* id);
  Result (*comm_init_rank_config)(Comm* comm, int ranks, UniqueId id, int rank, CommConfig* config);
  Result (*comm_finalize)(Comm comm);
  Result (*comm_destroy)(Comm comm);
  Result (*comm_abort)(Comm comm);
  Result (*comm_get_async_error)(Comm comm, Result* error);
  const char* (*get_error_string)(Result result);
  const char* (*get_last_error)(Comm comm);
  Result (*red_op_create_pre_mul_sum)(RedOp* op, void* scalar, DataType type, ScalarResidence residence, Comm comm);
  Result (*red_op_destroy)(RedOp op, Comm comm);
  Result (*reduce)(const void* from, void* to, std::size_t count, DataType type, RedOp op, int root, Comm comm,
                   Stream stream);
  Result (*broadcast)(const void* from, void* to, std::size_t count, DataType type, int root, Comm comm, Stream stream);
  Result (*all_reduce)(const void* from, void* to, std::size_t count, DataType type, RedOp op, Comm comm,
                       Stream stream);
  Result (*reduce_scatter)(const void* from, void* to, std::size_t received, DataType type, RedOp op, Comm comm,
                           Stream stream);
  Result (*all_gather)(const void* from, void* to, std::size_t sent, DataType type, Comm comm, Stream stream);
  Result (*send)(const void* from, std::size_t count, DataType type, int peer, Comm comm, Stream stream);
  Result (*recv)(void* to, std::size_t count, DataType type, int peer, Comm comm, Stream stream);
  Result (*group_start)();
  Result (*group_end)();
  Result (*comm_split)(Comm comm, int color, int key, Comm* part, CommConfig* config);
  // kFirstWithRegistration
  Result (*mem_alloc)(void** memory, std::size_t bytes);
  Result (*mem_free)(void* memory);
  Result (*comm_register)(Comm comm, void* memory, std::size_t bytes, void** handle);
  Result (*comm_deregister)(Comm comm, void* handle);
  // kFirstWithWindows
  Result (*comm_window_register)(Comm comm, void* memory, std::size_t bytes, Window* window, int flags);
  Result (*comm_window_deregister)(Comm comm, Window window);
  // kFirstWithAllToAll
  Result (*all_to_all)(const void* from, void* to, std::size_t count, DataType type, Comm comm, Stream stream);
  Result (*gather)(const void* from, void* to, std::size_t count, DataType type, int root, Comm comm, Stream stream);
  Result (*scatter)(const void* from, void* to, std::size_t count, DataType type, int root, Comm comm, Stream stream);
};

}  // namespace sinew::nccl
