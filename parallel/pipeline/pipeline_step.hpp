#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/pipeline/schedule/schedule.hpp>
#include <sinew/parallel/step_graph/graph.hpp>

namespace sinew::parallel {

/// A tensor that one stage hands to another for one microbatch.
struct BoundaryTensor {
  std::int32_t stage = 0;  ///< the stage behind the boundary; the tensor is its input, or the gradient of its input
  std::int32_t micro_batch = 0;
  bool gradient = false;
  friend auto operator<=>(const BoundaryTensor&, const BoundaryTensor&) = default;
};

/// All boundary tensors of one boundary in one direction. They use the places of their kind in turn.
struct MessageKind {
  std::int32_t stage = 0;
  bool gradient = false;
  friend auto operator<=>(const MessageKind&, const MessageKind&) = default;
};

/// The work of one rank in a step of a pipeline, as a step graph. Before each computation a gate waits for its inputs,
/// and for a place for its output. After the computation there is a signal. Messages are exchanges along "pp".
/// Gates and signals are named as actions are written: "2F0", "2B0", "2I0".
struct PipelineStep {
  StepGraph graph;
  std::vector<BoundaryTensor> tensors;  ///< by number of the graph's tensor
  std::map<BoundaryTensor, TensorId> numbers;
  std::map<MessageKind, std::int32_t> places;  ///< how many are in use at a time, at most
};

/// The number of messages of a kind that may be made and not yet received, if they are sent as soon as they are made.
/// The schedule is proved with that number. If the schedule makes data ahead of its sends, or posts receives ahead of
/// their readers, there are as many places as that needs.
inline constexpr int kMessagePlaces = 2;

/// The step of one rank. The schedule has its messages (with_messages).
/// bytes: of the input of each stage. The first stage has none.
SINEW_API PipelineStep step_of(const PipelineSchedule& schedule, std::int32_t rank,
                               const std::vector<std::int64_t>& bytes);

}  // namespace sinew::parallel
