#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/pipeline/schedule/schedule.hpp>

namespace sinew::parallel {

struct ProofOptions {
  /// false: of compute alone; what a stage makes is where it is needed at once.
  bool messages = true;
  /// Sends from one rank to another whose receive was not posted yet; one more waits, and with it all that follows on
  /// its rank. None: any number, as sends are posted. 0: each send waits for its receive. What runs with few runs with
  /// more.
  std::optional<std::int32_t> most_under_way = std::nullopt;
};

struct PlacedAction {
  std::int32_t rank = 0;
  Action action;

  friend bool operator==(const PlacedAction&, const PlacedAction&) = default;
};

/// The most that is kept at a time between forward and backward passes, in micro-batches of one stage.
/// An activation lives from Forward, or Recompute where there is one, to Backward or WeightGradient. An input alone
/// lives from a Forward to its Recompute.
/// Source: counted as in Qi et al., arXiv 2401.10241: what InputGradient has left for WeightGradient is an activation.
struct LiveActivations {
  std::vector<std::int32_t> by_rank, by_stage;
  std::vector<std::int32_t> inputs_by_rank, inputs_by_stage;
};

/// Whether a schedule is right, or the first thing found that is not.
struct [[nodiscard]] PipelineVerdict {
  bool ok = true;
  std::string reason;
  std::vector<PlacedAction> cycle;  ///< each waits for the next or comes after it on its rank, the last for the first
  LiveActivations live;             ///< where it is right

  explicit operator bool() const noexcept { return ok; }
};

/// Proves that a schedule is a step of training and runs, whatever the speed of the ranks. Right means:
///   actions    each micro-batch passes each stage once forward and once backward, whole or as its two parts, on the
///              stage's rank; nothing else is there twice
///   messages   each has both ends, and none joins a rank with itself; from one rank to another they are received in
///              the order in which they were sent
///   parameters of a stage with Unshard or Reshard are unsharded when it computes, and sharded in the end; where one
///              stage has a Reduce all have, after the last gradient
///   progress   no circle of actions that wait for each other, with zero buffering: a message passes when its send
///              and its receive are posted; posting waits for nothing but `most_under_way`, compute for its messages.
///              The reason shows the shortest circle
/// Cost: about 0.05 us per action; to find the shortest circle at worst the square of the actions in circles.
SINEW_API PipelineVerdict prove(const PipelineSchedule& schedule, const ProofOptions& options = {});

}  // namespace sinew::parallel
