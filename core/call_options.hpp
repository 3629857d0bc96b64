#pragma once

#include <cstddef>
#include <source_location>

#include <sinew/core/collective.hpp>
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
  std::size_t largest_bytes = 0;  ///< v-forms with local counts: a bound on any rank's buffer, equal on all ranks
  double pre_multiply = 1.0;      ///< ReduceOp::PreMulSum
  const Reducer* user = nullptr;  ///< ReduceOp::User
  std::source_location where = std::source_location::current();
};

}  // namespace sinew
