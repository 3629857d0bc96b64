#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/pipeline/schedule/schedule.hpp>
#include <sinew/parallel/step_graph/graph.hpp>

namespace sinew::parallel {

/// What goes between two stages for one micro-batch.
struct BoundaryTensor {
  std::int32_t stage = 0;  ///< behind the boundary: this one's input, or the gradient of that
  std::int32_t micro_batch = 0;
  bool gradient = false;
  friend auto operator<=>(const BoundaryTensor&, const BoundaryTensor&) = default;
};

/// Boundary tensors of one boundary and one way, which take their places in turn.
struct MessageKind {
  std::int32_t stage = 0;
  bool gradient = false;
  friend auto operator<=>(const MessageKind&, const MessageKind&) = default;
};

/// What one rank does in a step of a pipeline, as a step graph: before each computation a gate for what it reads and
/// for a place for what it makes, after it a signal; messages are exchanges along "pp".
/// Gates and signals are named as actions are written: "2F0", "2B0", "2I0".
struct PipelineStep {
  StepGraph graph;
  std::vector<BoundaryTensor> tensors;  ///< of the graph
  std::map<BoundaryTensor, TensorId> numbers;
  std::map<MessageKind, std::int32_t> places;  ///< that are taken at once, at most
};

/// How many messages of a kind may be made and not yet taken, of those that are sent as soon as they are made: prove()
/// with as many. Of others there are as many places as the schedule makes ahead of their sends; of those that are
/// received, as it posts ahead of what reads them.
inline constexpr int kMessagePlaces = 2;

/// bytes: of the input of each stage, by stage; the first has none.
/// The schedule has its messages (with_messages).
SINEW_API PipelineStep step_of(const PipelineSchedule& schedule, std::int32_t rank,
                               const std::vector<std::int64_t>& bytes);

}  // namespace sinew::parallel
