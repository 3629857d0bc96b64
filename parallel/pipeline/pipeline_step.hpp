#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/pipeline/schedule/schedule.hpp>
#include <sinew/parallel/step_graph/graph.hpp>
#include <sinew/parallel/step_graph/optimizer/exchange_report.hpp>

namespace sinew::parallel {

/// A tensor that one stage hands to another for one microbatch.
struct BoundaryTensor {
  std::int32_t stage = 0;  ///< the stage behind the boundary; the tensor is its input, or the gradient of its input
  std::int32_t micro_batch = 0;
  bool gradient = false;
  friend auto operator<=>(const BoundaryTensor&, const BoundaryTensor&) = default;
};

/// All boundary tensors of one boundary in one direction. They share a set of buffers, called places. A place is used
/// again when the tensor in it is not needed any more.
struct MessageKind {
  std::int32_t stage = 0;
  bool gradient = false;
  friend auto operator<=>(const MessageKind&, const MessageKind&) = default;
};

/// The work of one rank in a step of a pipeline, as a step graph. Before each computation a gate waits for its inputs,
/// and for a free place for its output. After the computation there is a signal. Messages are exchanges along "pp".
/// Gates and signals are named as actions are written: "2F0", "2B0", "2I0".
struct PipelineStep {
  StepGraph graph;
  std::vector<BoundaryTensor> tensors;  ///< by number of the graph's tensor
  std::map<BoundaryTensor, TensorId> numbers;
  std::map<MessageKind, std::int32_t> places;  ///< the number of buffers for each kind
  ExchangeReport report;                       ///< how the messages were moved
};

/// The number of messages of one kind that may be computed before they are received, if each is sent as soon as it is
/// computed. prove() checks the schedule with this number as most_under_way. If the schedule computes data long before
/// their send, or posts a receive long before its data are read, there are as many more places as needed.
inline constexpr int kMessagePlaces = 2;

/// The step of one rank. The schedule must have its messages (with_messages).
/// bytes: the size of each stage's input. The first stage has no input.
/// prices: for the bytes and times of the report.
SINEW_API PipelineStep step_of(const PipelineSchedule& schedule, std::int32_t rank,
                               const std::vector<std::int64_t>& bytes, const ExchangePrices& prices = {});

}  // namespace sinew::parallel
