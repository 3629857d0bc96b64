#pragma once

#include <cstdint>

namespace sinew::parallel {

/// The kinds of actions of a pipeline.
enum class ActionKind : std::uint8_t {
  // Compute of one stage and one microbatch.
  Forward,
  Backward,        ///< InputGradient and WeightGradient together
  InputGradient,   ///< the gradient of the stage's input, for which the previous stage waits
  WeightGradient,  ///< the gradient of the stage's parameters, from what InputGradient has kept
  Recompute,       ///< the forward pass again, for activations that were not kept
  // Messages of one stage and one microbatch.
  SendActivation,     ///< the stage's output, to the rank of the next stage
  ReceiveActivation,  ///< the stage's input, from the rank of the previous stage
  SendGradient,       ///< the gradient of the stage's input, to the rank of the previous stage
  ReceiveGradient,    ///< the gradient of the stage's output, from the rank of the next stage
  // Actions on a stage's parameters, without a microbatch.
  Unshard,  ///< gathers the stage's parameters
  Reshard,  ///< frees the gathered parameters
  Reduce,   ///< sums the gradients that were added up since the last Reduce over the ranks that share the stage
};

constexpr bool is_compute(ActionKind kind) noexcept { return kind <= ActionKind::Recompute; }
constexpr bool is_message(ActionKind kind) noexcept {
  return kind >= ActionKind::SendActivation && kind <= ActionKind::ReceiveGradient;
}
constexpr bool has_micro_batch(ActionKind kind) noexcept { return kind < ActionKind::Unshard; }

/// One thing that a rank does in a pipeline. A send does not block the rank's compute. A receive blocks the compute
/// that needs it.
/// Source: the actions of PyTorch's torch.distributed.pipelining.
struct Action {
  ActionKind kind = ActionKind::Forward;
  std::int32_t stage = 0;
  std::int32_t micro_batch = -1;  ///< -1 if the kind has none

  friend bool operator==(const Action&, const Action&) = default;
};

}  // namespace sinew::parallel
