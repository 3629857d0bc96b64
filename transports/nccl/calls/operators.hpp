#pragma once

#include <array>
#include <cstddef>

#include <sinew/transports/nccl/calls/nccl_call.hpp>
#include <sinew/transports/nccl/library/nccl_api.hpp>

namespace sinew::nccl {

/// The operators of one communicator: NCCL's own, and pre-multiplied sums, made when they are first used.
/// Lifetime: those that were made end with the communicator.
class Operators {
 public:
  /// Sets `op` to the operator of a call that reduces; leaves it for others.
  Result find(const Api& api, Comm comm, const NcclCall& call, RedOp& op);

 private:
  /// A scale that changes with every step must not grow this.
  static constexpr std::size_t kKept = 16;

  struct PreMulSum {
    DType dtype{};
    double factor = 0;
    RedOp op{};
  };

  Result pre_mul_sum(const Api& api, Comm comm, const NcclCall& call, RedOp& op);

  std::array<PreMulSum, kKept> made_{};
  std::size_t count_ = 0;  // ever made; the oldest makes room
};

}  // namespace sinew::nccl
