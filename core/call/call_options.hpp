#pragma once

#include <cstddef>
#include <source_location>

#include <sinew/core/call/collective.hpp>
#include <sinew/core/deadline.hpp>

namespace sinew {

/// A CUDA stream (cudaStream_t) of a device, untyped so that no CUDA header is needed; null: host work.
struct StreamRef {
  void* stream = nullptr;
  int device = -1;
};

/// What a caller may say about one call beside its buffers.
struct CallOptions {
  StreamRef after{};    ///< device buffers: start after what this stream holds now
  Deadline deadline{};  ///< when it passes the communicator ends with Timeout on all its ranks; not given: config
  Determinism determinism = Determinism::Fast;
  Codec codec = Codec::None;      ///< f32 sums and gathers: how elements travel; equal on all ranks
  std::size_t largest_bytes = 0;  ///< v-forms with local counts: a bound on any rank's buffer, equal on all ranks
  double pre_multiply = 1.0;      ///< ReduceOp::PreMulSum
  /// The caller waits for this call as its next step. With Threads::Multiple the World's thread is then left asleep.
  bool waits_at_once = false;
  /// ReduceOp::User: associative and commutative, as any algorithm may apply it to any two partial results; equal on
  /// all ranks; element_bytes as the call's dtype has. Copied by the call, but not what `context` points to; called by
  /// the thread that makes progress.
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
