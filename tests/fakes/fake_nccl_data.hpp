#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <sinew/core/call/collective.hpp>
#include <sinew/transports/nccl/library/nccl_api.hpp>

namespace sinew::fake {

/// One rank's part in a collective; its memory where it can be touched.
struct Part {
  Collective collective{};
  std::size_t count = 0;
  DType dtype{};
  ReduceOp op{};
  double factor = 1.0;  ///< PreMulSum
  int root = 0;
  const std::byte* in = nullptr;
  std::byte* out = nullptr;

  /// What must be equal on all ranks.
  std::string signature() const;
  /// Of the calling rank's buffers; 0: it takes or gives nothing.
  std::size_t in_bytes(int rank, int ranks) const;
  std::size_t out_bytes(int rank, int ranks) const;
};

DType dtype_of(nccl::DataType type);

/// Does the work of all ranks: reads everything before it writes anything.
void perform(const std::vector<Part>& parts);

}  // namespace sinew::fake
