#pragma once

#include <cstdint>

namespace sinew::parallel {

enum class ActionKind : std::uint8_t {
  // Compute, of one stage and one micro-batch.
  Forward,
  Backward,        ///< InputGradient and WeightGradient together
  InputGradient,   ///< the gradient of the stage's input: what the stage before it waits for
  WeightGradient,  ///< the gradient of the stage's parameters, from what InputGradient has left
  Recompute,       ///< the forward pass once more, for activations that were not kept
  // Messages, of one stage and one micro-batch.
  SendActivation,     ///< the stage's output, to the rank of the next stage
  ReceiveActivation,  ///< the stage's input, from the rank of the stage before it
  SendGradient,       ///< the gradient of the stage's input, to the rank of the stage before it
  ReceiveGradient,    ///< the gradient of the stage's output, from the rank of the next stage
  // Of a stage's parameters: there is no micro-batch.
  Unshard,
  Reshard,
  Reduce,  ///< of their gradients
};

constexpr bool is_compute(ActionKind kind) noexcept { return kind <= ActionKind::Recompute; }
constexpr bool is_message(ActionKind kind) noexcept {
  return kind >= ActionKind::SendActivation && kind <= ActionKind::ReceiveGradient;
}
constexpr bool has_micro_batch(ActionKind kind) noexcept { return kind < ActionKind::Unshard; }

/// One thing that a rank does in a pipeline. Sends do not block the rank's compute; a receive blocks what needs it.
/// Source: the actions of PyTorch's torch.distributed.pipelining.
struct Action {
  ActionKind kind = ActionKind::Forward;
  std::int32_t stage = 0;
  std::int32_t micro_batch = -1;  ///< -1 where the kind has none

  friend bool operator==(const Action&, const Action&) = default;
};

}  // namespace sinew::parallel
