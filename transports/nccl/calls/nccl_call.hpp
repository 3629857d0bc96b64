#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <sinew/core/offload.hpp>

namespace sinew::nccl {

/// A collective as NCCL takes it: outlives its description.
struct NcclCall {
  Collective collective{};
  DType dtype{};
  ReduceOp op{};
  int root = 0;
  std::uint64_t count = 0;
  double pre_multiply = 1.0;
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
  /// The v-forms: what goes to each rank, and what comes from each; of shared counts only the side that has all parts.
  std::span<const Extent> in_parts{};
  std::span<const Extent> out_parts{};

  NcclCall() = default;
  /// `parts`: where the call's parts are kept, parts_of(call) of them.
  NcclCall(const Call& call, Extent* parts) noexcept;

  /// What is read from before it is written, in one buffer: bytes of it that must be copied first, else 0.
  std::size_t bytes_to_copy(int ranks) const noexcept;
};

/// Of a v-form: how many parts it has on this rank, on both sides; else 0.
std::size_t parts_of(const Call& call) noexcept;

}  // namespace sinew::nccl
