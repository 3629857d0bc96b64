#pragma once

#include <cstddef>
#include <source_location>

#include <sinew/core/call/collective.hpp>
#include <sinew/core/deadline.hpp>

namespace sinew {

/// A CUDA stream (cudaStream_t) of a device. It is untyped, so no CUDA header is needed. Null means work of the host.
struct StreamRef {
  void* stream = nullptr;
  int device = -1;
};

/// Optional arguments of a call.
struct CallOptions {
  StreamRef after{};  ///< with device buffers, the call starts after the work that this stream holds now
  /// If it passes before the call ends, the communicator ends with Timeout on all its ranks. If no deadline is given,
  /// Config::timeout applies.
  Deadline deadline{};
  Determinism determinism = Determinism::Fast;
  Codec codec = Codec::None;      ///< the encoding of f32 elements in messages of sums and gathers; equal on all ranks
  std::size_t largest_bytes = 0;  ///< v-forms with local counts: an upper bound of all buffers, equal on all ranks
  double pre_multiply = 1.0;      ///< the factor of ReduceOp::PreMulSum
  /// The caller waits for this call as its next step. With Threads::Multiple the World's thread is then left asleep.
  bool waits_at_once = false;
  /// The function of ReduceOp::User. It is equal on all ranks, and it must be associative and commutative, since any
  /// two partial results may be combined. Its element_bytes are those of the call's dtype.
  /// Thread:   the thread that makes progress calls it.
  /// Lifetime: the call copies it. The object at `context` must live until the call has ended.
  const Reducer* user = nullptr;
  /// The purpose of the call, such as "bucket 3". Errors and verdicts show it behind the source line. It may be null.
  /// Lifetime: the text must stay valid until the call has ended.
  const char* label = nullptr;
  /// The source line that errors and verdicts show: the line of the braces in `CallOptions{...}`. `CallOptions o;`,
  /// without braces, records no line of the program, so write `CallOptions o{};`.
  /// With `where = {}` no line is recorded, and errors show the label alone.
  std::source_location where = std::source_location::current();
};

}  // namespace sinew
