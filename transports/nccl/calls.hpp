#pragma once

#include <cstddef>
#include <cstdint>

#include <sinew/core/cost.hpp>
#include <sinew/core/offload.hpp>
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

  explicit NcclCall(const Call& call) noexcept;
  std::uint64_t block_bytes() const noexcept { return count * size_of(dtype); }
  /// Messages within one buffer: what arrives would overwrite what has not been sent.
  bool needs_copy() const noexcept { return collective == Collective::AllToAll && in == out && count > 0; }
};

/// What calls are judged by.
struct Abilities {
  int version = 0;             ///< of NCCL, as version_code
  int compute_capability = 0;  ///< the least of all ranks' devices
};
Availability can_run(const CollectiveDesc& desc, const Abilities& abilities);
/// The functions that it runs it with, in words.
const char* way_of(Collective collective, const Api& api) noexcept;

/// Who calls: the communicator's place in its group, the stream.
struct Caller {
  const Api& api;
  Comm comm;
  int rank;
  int ranks;
  Stream stream;
};
/// `op`: made for the call; ignored where it does not reduce. Success and InProgress are good answers.
Result issue(const Caller& caller, const NcclCall& call, RedOp op);

DataType type_of(DType dtype) noexcept;

}  // namespace sinew::nccl
