#pragma once

#include <cstddef>
#include <cstdint>

#include <sinew/core/offload.hpp>
#include <sinew/transports/shm/memory/layout.hpp>
#include <sinew/transports/shm/offload/facts.hpp>

namespace sinew::shm {

/// The part of a call that follows from its description, the rank and the facts. Calls that repeat have the same.
struct CallForm {
  Collective collective = Collective::Barrier;
  ReduceOp op = ReduceOp::Sum;
  Protocol protocol = Protocol::Inline;
  bool by_tree = false;  ///< true: contributions combine in the canonical order
  bool blocks = false;   ///< this and the following: as in Contribution
  bool without_own = false;
  bool demoted = false;  ///< true: the announcement is pushed to the cache that cores share
  std::int32_t root = 0;
  std::uint64_t bytes = 0;  ///< of desc.count elements
  std::uint64_t given = 0;  ///< as in Contribution; 0: no rank reads `in`
  std::uint64_t shown = 0;
};
CallForm form_of(const CollectiveDesc& desc, int rank, int ranks, const Facts& facts, Protocol protocol) noexcept;

/// One launched call, in the words of this transport.
struct PendingCall : CallForm {
  Completion* done = nullptr;
  std::uint64_t sequence = 0;  ///< of this group, without gaps
  Fingerprint fingerprint = 0;
  std::uint32_t history = 0;  ///< as in FlagLine
  bool exposed = false;       ///< peers read the user's buffers themselves: not done before they are
  std::byte* out = nullptr;
  const std::byte* in = nullptr;
  Reducer reducer;
  ManyReducer many;  ///< fn null: only `reducer`
  Scaler scaler;

  bool scales_inputs() const noexcept { return op == ReduceOp::PreMulSum && scaler.fn != nullptr; }
  bool scales_result() const noexcept { return op == ReduceOp::Average && scaler.fn != nullptr; }
};

/// Has the rank that wrote this line made the same call, after the same calls?
inline bool agrees(const PendingCall& call, const FlagLine& line) noexcept {
  return line.fingerprint == call.fingerprint && line.history == call.history;
}

/// out = sources[0] (op) sources[1] ...; `out` may be one of the sources. At least one byte.
void reduce_all(const PendingCall& call, std::byte* out, const void* const* sources, int count,
                std::uint64_t bytes) noexcept;

/// The same for the sources of all ranks, in their order, so that all of them get the same bits; and what the operator
/// does to the finished sum.
void combine(const PendingCall& call, std::byte* out, const void* const* sources, int count,
             std::uint64_t bytes) noexcept;

/// Computes this rank's result. `shown[r]` is the part of rank r's contribution that this rank reads.
void finish_at_once(const PendingCall& call, const void* const* shown, int rank, int ranks) noexcept;

}  // namespace sinew::shm
