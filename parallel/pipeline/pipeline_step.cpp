#include <map>
#include <stdexcept>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include <sinew/parallel/pipeline/action_text.hpp>
#include <sinew/parallel/pipeline/pipeline_step.hpp>
#include <sinew/parallel/step/passes.hpp>

namespace sinew::parallel {
namespace {

class Lowering {
 public:
  Lowering(const PipelineSchedule& schedule, std::int32_t rank, const std::vector<std::int64_t>& bytes)
      : schedule_(schedule), rank_(rank), bytes_(bytes) {}

  PipelineStep run() && {
    for (const Action& action : schedule_.actions[static_cast<std::size_t>(rank_)]) {
      switch (action.kind) {
        case ActionKind::Forward: forward(action); break;
        case ActionKind::Backward:
        case ActionKind::InputGradient: backward(action); break;
        case ActionKind::SendActivation: send(action, action.stage + 1, false); break;
        case ActionKind::SendGradient: send(action, action.stage, true); break;
        case ActionKind::ReceiveActivation: receive(action, action.stage, false); break;
        case ActionKind::ReceiveGradient: receive(action, action.stage + 1, true); break;
        case ActionKind::WeightGradient:
        case ActionKind::Recompute:
        case ActionKind::Unshard:
        case ActionKind::Reshard:
        case ActionKind::Reduce: break;  // the engine's own
      }
    }
    step_.graph = wait_late(issue_early(std::move(step_.graph)));
    return std::move(step_);
  }

 private:
  std::int32_t last() const noexcept { return schedule_.stages() - 1; }
  std::int32_t rank_of(std::int32_t stage) const noexcept { return schedule_.rank_of[static_cast<std::size_t>(stage)]; }
  bool is_handed_over(std::int32_t stage) const noexcept { return rank_of(stage) == rank_of(stage - 1); }

  TensorId tensor(const BoundaryTensor& t) {
    const auto [place, is_new] =
        numbers_.emplace(std::tuple(t.stage, t.micro_batch, t.gradient), static_cast<TensorId>(step_.tensors.size()));
    if (is_new) {
      step_.tensors.push_back(t);
      step_.hand_over.push_back(is_handed_over(t.stage));
      const std::string name = fmt::format("{} of stage {}, micro-batch {}",
                                           t.gradient ? "gradient of the input" : "input", t.stage, t.micro_batch);
      step_.graph.tensors.push_back({name, name, DType::U8, bytes_[static_cast<std::size_t>(t.stage)]});
    }
    return place->second;
  }
  void add(Node node) { step_.graph.nodes.push_back(std::move(node)); }

  /// The tensor whose place this one takes: of the same kind, so many before it on this rank.
  TensorId before(std::vector<TensorId>& row, TensorId now) {
    row.push_back(now);
    return std::ssize(row) > kMessagePlaces ? row[row.size() - 1 - kMessagePlaces] : -1;
  }

  /// reads, makes: boundaries that there are, or none.
  void compute(const Action& action, std::int32_t read_stage, std::int32_t made_stage, bool gradient) {
    const bool reads = read_stage >= 1 && read_stage <= last(), makes = made_stage >= 1 && made_stage <= last();
    Node gate{.kind = NodeKind::Gate, .name = to_string(action), .parts = true};
    Node signal{.kind = NodeKind::Signal, .name = to_string(action)};
    TensorId read = -1;
    if (reads) {
      read = tensor({read_stage, action.micro_batch, gradient});
      gate.tensors.push_back(read);
    }
    if (makes) {
      const TensorId made = tensor({made_stage, action.micro_batch, gradient});
      signal.tensors.push_back(made);
      if (!is_handed_over(made_stage)) {
        const TensorId gone = before(made_[{made_stage, gradient}], made);
        if (gone >= 0) gate.tensors.push_back(gone);
      }
    }
    add(std::move(gate));
    add(std::move(signal));
    if (reads) add({.kind = NodeKind::Free, .name = fmt::format("{} read", to_string(action)), .tensors = {read}});
  }
  void forward(const Action& action) { compute(action, action.stage, action.stage + 1, false); }
  void backward(const Action& action) { compute(action, action.stage + 1, action.stage, true); }

  void message(Node node) {
    node.axes = "pp";
    node.exchange = next_++;
    const Node wait{.kind = NodeKind::Wait, .tensors = node.tensors, .exchange = node.exchange};
    add(std::move(node));
    add(wait);
  }
  /// Equal at both ends, of each boundary, direction and micro-batch its own.
  std::int32_t match(std::int32_t stage, std::int32_t micro_batch, bool gradient) const noexcept {
    return 2 * (stage * schedule_.micro_batches + micro_batch) + (gradient ? 1 : 0);
  }
  void send(const Action& action, std::int32_t stage, bool gradient) {
    const TensorId t = tensor({stage, action.micro_batch, gradient});
    message({.kind = NodeKind::Send,
             .tensors = {t},
             .peer = rank_of(gradient ? stage - 1 : stage),
             .match = match(stage, action.micro_batch, gradient)});
    add({.kind = NodeKind::Free, .name = fmt::format("{} gone", to_string(action)), .tensors = {t}});
  }
  void receive(const Action& action, std::int32_t stage, bool gradient) {
    const TensorId t = tensor({stage, action.micro_batch, gradient});
    message({.kind = NodeKind::Receive,
             .tensors = {t},
             .room_of = before(received_[{stage, gradient}], t),
             .peer = rank_of(gradient ? stage : stage - 1),
             .match = match(stage, action.micro_batch, gradient)});
  }

  const PipelineSchedule& schedule_;
  std::int32_t rank_, next_ = 0;
  const std::vector<std::int64_t>& bytes_;
  PipelineStep step_;
  std::map<std::tuple<std::int32_t, std::int32_t, bool>, TensorId> numbers_;
  std::map<std::pair<std::int32_t, bool>, std::vector<TensorId>> made_, received_;  // by boundary, in order
};

}  // namespace

TensorId PipelineStep::find(const BoundaryTensor& tensor) const {
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    if (tensors[t] == tensor) return static_cast<TensorId>(t);
  }
  throw std::out_of_range("pipeline: no such tensor");
}

PipelineStep step_of(const PipelineSchedule& schedule, std::int32_t rank, const std::vector<std::int64_t>& bytes) {
  return Lowering(schedule, rank, bytes).run();
}

}  // namespace sinew::parallel
