#pragma once

// Proves that a schedule is right. The room knows the messages of a schedule, what each action waits for, cycles of
// waiting actions, and live activations. It also finds passes that may overlap. It may include the room `schedule`.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/pipeline/schedule/schedule.hpp>
#include <sinew/parallel/pipeline/verify/stage_memory.hpp>

namespace sinew::parallel {

/// The assumptions of a proof about messages.
struct ProofOptions {
  /// false: the schedule has compute alone. The output of a stage is at once available to the next stage.
  bool messages = true;
  /// The number of sends from one rank to another that may wait for their receive to be posted. One more send blocks
  /// its rank. nullopt: any number; a send never blocks its rank. 0: each send waits for its receive. A schedule that
  /// runs with a smaller number also runs with a larger one.
  std::optional<std::int32_t> most_under_way = std::nullopt;
  /// By stage, for a proof about memory. Empty: the proof says nothing about memory.
  std::vector<StageBytes> stages = {};
  /// The most bytes of gathered parameters and whole gradients that a rank may hold at a time.
  std::optional<std::int64_t> most_bytes = std::nullopt;
};

/// An action, and the rank that takes it.
struct PlacedAction {
  std::int32_t rank = 0;
  Action action;

  friend bool operator==(const PlacedAction&, const PlacedAction&) = default;
};

/// The most activations and inputs that are kept at a time between forward and backward passes, in microbatches of one
/// stage. An activation lives from Forward, or from Recompute if there is one, to Backward or WeightGradient. If there
/// is a Recompute, the input lives from Forward to Recompute. In a forward-only schedule an activation lives during
/// Forward.
/// Source: counted as in Qi et al., arXiv 2401.10241: what InputGradient keeps for WeightGradient is an activation.
struct LiveActivations {
  std::vector<std::int32_t> by_rank, by_stage;
  std::vector<std::int32_t> inputs_by_rank, inputs_by_stage;
};

/// The result of a proof. If the schedule is not right, it has the first fault that was found.
struct [[nodiscard]] PipelineVerdict {
  bool ok = true;
  std::string reason;
  /// The shortest cycle of waiting actions, if there is one. Each action waits for the next one, or comes after it on
  /// its rank. The last action waits for the first in the same way.
  std::vector<PlacedAction> cycle;
  LiveActivations live;  ///< only for a schedule that is right
  StageMemory memory;    ///< only for a schedule that is right, with ProofOptions::stages

  explicit operator bool() const noexcept { return ok; }
};

/// Proves that a schedule is a step of training, or a forward-only pass. Proves too that it runs whatever the speed of
/// the ranks. A right schedule has these properties:
///   actions    Each microbatch passes each stage once forward and once backward, as one action or as its two parts, on
///              the stage's rank. No action does the same as another. In a forward-only schedule each microbatch
///              passes each stage once forward, and no action has to do with gradients.
///   messages   Each message has both ends, and joins two ranks. Messages from one rank to another are received in the
///              order in which they are sent.
///   parameters A stage with Unshard or Reshard is unsharded when it computes, and sharded at the end. If one stage has
///              a Reduce, all stages have one after their last gradient. A stage may have several; each comes after new
///              gradients.
///   progress   No actions wait for each other in a cycle. Messages need no buffers: a message passes when its send and
///              its receive are posted. Posting waits only as `most_under_way` says. Compute waits for its messages. If
///              there are cycles, the reason shows the shortest one.
///   memory     Gathered parameters and whole gradients of a rank take at most ProofOptions::most_bytes, if it says how
///              many. stage_memory() counts them.
/// Cost: about 0.05 us for each action. Finding the shortest cycle takes time that grows at worst with the square of
///       the actions in cycles.
SINEW_API PipelineVerdict prove(const PipelineSchedule& schedule, const ProofOptions& options = {});

}  // namespace sinew::parallel
