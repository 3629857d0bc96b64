#include <algorithm>
#include <deque>
#include <map>
#include <string>
#include <utility>

#include <fmt/format.h>

#include <sinew/parallel/pipeline/pipeline_step.hpp>
#include <sinew/parallel/pipeline/schedule/action_text.hpp>
#include <sinew/parallel/pipeline/schedule/stage_ends.hpp>
#include <sinew/parallel/step_graph/optimizer/optimize.hpp>

namespace sinew::parallel {
namespace {

class Lowering {
 public:
  Lowering(const PipelineSchedule& schedule, std::int32_t rank, const std::vector<std::int64_t>& bytes,
           const ExchangePrices& prices)
      : schedule_(schedule), rank_(rank), bytes_(bytes), prices_(prices) {}

  PipelineStep run() && {
    for (std::size_t i = 0; i < actions().size(); ++i) {
      const Action& action = actions()[i];
      switch (action.kind) {
        case ActionKind::Forward: forward(i); break;
        case ActionKind::Backward:
        case ActionKind::InputGradient: backward(i); break;
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
    OptimizedGraph optimized = optimize_exchanges(std::move(step_.graph), {.prices = prices_});
    step_.graph = std::move(optimized.graph);
    step_.report = std::move(optimized.report);
    return std::move(step_);
  }

 private:
  std::int32_t last() const noexcept { return schedule_.stages() - 1; }
  const std::vector<Action>& actions() const noexcept { return schedule_.actions[static_cast<std::size_t>(rank_)]; }
  std::int32_t rank_of(std::int32_t stage) const noexcept { return parallel::rank_of(schedule_, stage); }
  bool is_handed_over(std::int32_t stage) const noexcept { return !is_cut_after(schedule_, stage - 1); }

  TensorId tensor(const BoundaryTensor& t) {
    const auto [place, is_new] = step_.numbers.emplace(t, static_cast<TensorId>(step_.tensors.size()));
    if (is_new) {
      step_.tensors.push_back(t);
      const std::string name = fmt::format("{} of stage {}, micro-batch {}",
                                           t.gradient ? "gradient of the input" : "input", t.stage, t.micro_batch);
      step_.graph.tensors.push_back({name, name, DType::U8, bytes_[static_cast<std::size_t>(t.stage)]});
    }
    return place->second;
  }
  void add(Node node) { step_.graph.nodes.push_back(std::move(node)); }

  /// Returns whether, after this action, the send of its output comes before any action for which other ranks could
  /// wait.
  bool is_sent_at_once(std::size_t number) const noexcept {
    const Action& makes = actions()[number];
    const ActionKind sends = makes.kind == ActionKind::Forward ? ActionKind::SendActivation : ActionKind::SendGradient;
    for (std::size_t i = number + 1; i < actions().size(); ++i) {
      const ActionKind kind = actions()[i].kind;
      if (is_message(kind)) return actions()[i] == Action{sends, makes.stage, makes.micro_batch};
      if (kind == ActionKind::Forward || kind == ActionKind::Backward || kind == ActionKind::InputGradient)
        return false;
    }
    return false;
  }
  /// The tensor whose place one takes that is made, as soon as it has gone; none: -1, it is a new place. No action
  /// waits for more than prove() has it wait for: that of the messages to a rank, kMessagePlaces before its own or the
  /// last one that was sent, the receive is posted.
  TensorId place_for_made(const MessageKind& kind, std::int32_t peer, bool is_sent_at_once) {
    std::deque<Sent>& sent = sent_[kind];
    std::int32_t& places = step_.places[kind];
    const std::int32_t count = sends_[peer] + (is_sent_at_once ? 1 : 0);
    if (places < kMessagePlaces || sent.empty() || sent.front().number + kMessagePlaces >= count) {
      ++places;
      return -1;
    }
    const TensorId gone = sent.front().tensor;
    sent.pop_front();
    return gone;
  }
  /// The tensor that has been read longest ago, whose place is free; none: -1, it is a new place.
  TensorId place_for_received(const MessageKind& kind) {
    std::deque<TensorId>& idle = read_[kind];
    if (idle.empty()) {
      ++step_.places[kind];
      return -1;
    }
    const TensorId place = idle.front();
    idle.pop_front();
    return place;
  }
  void count_handed_over(const MessageKind& kind, std::int32_t change) {
    live_[kind] += change;
    step_.places[kind] = std::max(step_.places[kind], live_[kind]);
  }

  /// reads, makes: boundaries that there are, or none.
  void compute(std::size_t number, std::int32_t read_stage, std::int32_t made_stage, bool gradient) {
    const Action& action = actions()[number];
    const bool reads = read_stage >= 1 && read_stage <= last(), makes = made_stage >= 1 && made_stage <= last();
    Node gate{.kind = NodeKind::Gate, .name = to_string(action), .parts = true};
    Node signal{.kind = NodeKind::Signal, .name = to_string(action)};
    TensorId read = -1;
    if (reads) {
      read = tensor({read_stage, action.micro_batch, gradient});
      gate.tensors.push_back(read);
      signal.tensors.push_back(read);  // it is not read any more
    }
    if (makes) {
      const TensorId made = tensor({made_stage, action.micro_batch, gradient});
      signal.tensors.push_back(made);
      const MessageKind kind{made_stage, gradient};
      if (is_handed_over(made_stage)) {
        count_handed_over(kind, 1);
      } else {
        const std::int32_t peer = rank_of(gradient ? made_stage - 1 : made_stage);
        const TensorId gone = place_for_made(kind, peer, is_sent_at_once(number));
        if (gone >= 0) gate.tensors.push_back(gone);
      }
    }
    add(std::move(gate));
    add(std::move(signal));
    if (!reads) return;
    if (is_handed_over(read_stage)) {
      count_handed_over({read_stage, gradient}, -1);
    } else {
      read_[{read_stage, gradient}].push_back(read);
    }
    add({.kind = NodeKind::Free, .name = fmt::format("{} read", to_string(action)), .tensors = {read}});
  }
  void forward(std::size_t number) {
    const std::int32_t stage = actions()[number].stage;
    compute(number, stage, stage + 1, false);
  }
  void backward(std::size_t number) {
    const std::int32_t stage = actions()[number].stage;
    compute(number, stage + 1, stage, true);
  }

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
    const std::int32_t peer = rank_of(gradient ? stage - 1 : stage);
    sent_[{stage, gradient}].push_back({t, sends_[peer]++});
    message(
        {.kind = NodeKind::Send, .tensors = {t}, .peer = peer, .match = match(stage, action.micro_batch, gradient)});
    add({.kind = NodeKind::Free, .name = fmt::format("{} gone", to_string(action)), .tensors = {t}});
  }
  void receive(const Action& action, std::int32_t stage, bool gradient) {
    const TensorId t = tensor({stage, action.micro_batch, gradient});
    message({.kind = NodeKind::Receive,
             .tensors = {t},
             .room_of = place_for_received({stage, gradient}),
             .peer = rank_of(gradient ? stage : stage - 1),
             .match = match(stage, action.micro_batch, gradient)});
  }

  const PipelineSchedule& schedule_;
  std::int32_t rank_, next_ = 0;
  const std::vector<std::int64_t>& bytes_;
  const ExchangePrices& prices_;
  PipelineStep step_;
  struct Sent {
    TensorId tensor = -1;
    std::int32_t number = 0;  // of the messages to that rank
  };
  std::map<std::int32_t, std::int32_t> sends_;        // to each rank, so far
  std::map<MessageKind, std::deque<Sent>> sent_;      // whose places are free when they have gone
  std::map<MessageKind, std::deque<TensorId>> read_;  // whose places are free
  std::map<MessageKind, std::int32_t> live_;          // handed over and not yet read
};

}  // namespace

PipelineStep step_of(const PipelineSchedule& schedule, std::int32_t rank, const std::vector<std::int64_t>& bytes,
                     const ExchangePrices& prices) {
  return Lowering(schedule, rank, bytes, prices).run();
}

}  // namespace sinew::parallel
