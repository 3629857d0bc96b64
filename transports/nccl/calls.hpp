#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <sinew/core/call/cost.hpp>
#include <sinew/core/offload.hpp>
#include <sinew/transports/nccl/features.hpp>
#include <sinew/transports/nccl/grouped.hpp>
#include <sinew/transports/nccl/nccl_api.hpp>

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

/// What calls are judged by.
struct Abilities {
  int version = 0;             ///< of NCCL, as version_code
  int compute_capability = 0;  ///< the least of all ranks' devices
  Features features;
};
Availability can_run(const CollectiveDesc& desc, const Abilities& abilities, int ranks);
/// The functions that it runs it with, in words.
const char* way_of(Collective collective, const Features& features) noexcept;

/// `op`: made for the call; ignored where it does not reduce. Success and InProgress are good answers.
Result issue(const Caller& caller, const Features& features, const NcclCall& call, RedOp op);

DataType type_of(DType dtype) noexcept;
/// 8-bit floats as bytes: no version refuses those.
DataType type_to_move(DType dtype) noexcept;

}  // namespace sinew::nccl
