#include "executor.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <stdexcept>
#include <tuple>
#include <utility>
#include <vector>

#include <sinew/parallel/pipeline/schedule/action_text.hpp>

namespace sinew::parallel::test {
namespace {

using Symbol = std::uint64_t;
using Key = std::pair<std::int32_t, std::int32_t>;  // stage and micro-batch, or two ranks

/// A symbol that tells what it was made of, and in which way. Every micro-batch has something of its own in every
/// stage, as masks of dropout and targets are.
Symbol made(Symbol way, const Action& of, Symbol a, Symbol b = 0) {
  Symbol h = 0x9E3779B97F4A7C15U;
  for (const Symbol part : {way, Symbol(of.stage), Symbol(of.micro_batch), a, b}) {
    h = (h ^ part) * 0xBF58476D1CE4E5B9U;
    h ^= h >> 29U;
  }
  return h;
}
Symbol batch(const Action& a) { return made(0, a, 0); }
Symbol output(const Action& a, Symbol in) { return made(1, a, in); }
Symbol loss_gradient(const Action& a, Symbol out) { return made(2, a, out); }
Symbol input_gradient(const Action& a, Symbol in, Symbol out_gradient) { return made(3, a, in, out_gradient); }
Symbol weight_gradient(const Action& a, Symbol in, Symbol out_gradient) { return made(4, a, in, out_gradient); }

/// The sum of the gradients of each stage, as one process makes them.
std::vector<Symbol> expected(const PipelineSchedule& schedule) {
  std::vector<Symbol> sums(schedule.rank_of.size(), 0);
  for (std::int32_t m = 0; m < schedule.micro_batches; ++m) {
    const auto pass = [m](std::size_t stage) { return Action{ActionKind::Forward, std::int32_t(stage), m}; };
    std::vector<Symbol> values{batch(pass(0))};
    for (std::size_t s = 0; s < sums.size(); ++s) values.push_back(output(pass(s), values.back()));
    Symbol gradient = loss_gradient(pass(sums.size() - 1), values.back());
    for (std::size_t s = sums.size(); s-- > 0;) {
      sums[s] += weight_gradient(pass(s), values[s], gradient);
      gradient = input_gradient(pass(s), values[s], gradient);
    }
  }
  return sums;
}

struct Wrong : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Queue {
  std::vector<Symbol> sent;
  std::vector<std::pair<bool, Key>> posted;  // of a gradient? of which stage and micro-batch
  std::size_t passed = 0;
};

struct Rank {
  std::size_t next = 0;
  std::map<Key, Symbol> inputs, outputs, gradients, input_gradients;  // gradients: of outputs
  std::set<Key> kept;                                                 // activations that a backward pass may use
  std::map<Key, Symbol> left_for_weights;
};

class Executor {
 public:
  Executor(const PipelineSchedule& schedule, std::optional<std::int32_t> most)
      : schedule_(schedule), most_(most), ranks_(schedule.actions.size()), sums_(schedule.rank_of.size(), 0) {
    for (const auto& actions : schedule.actions) {
      for (const Action& a : actions) {
        if (a.kind == ActionKind::Unshard || a.kind == ActionKind::Reshard) sharded_.insert(a.stage);
        if (a.kind == ActionKind::Recompute) recomputed_.insert({a.stage, a.micro_batch});
      }
    }
  }

  std::string run(std::mt19937& random) {
    try {
      std::vector<std::size_t> order(ranks_.size());
      for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
      for (bool moved = true; moved;) {
        moved = false;
        std::ranges::shuffle(order, random);
        for (const std::size_t r : order) {
          // A few at a time, so that ranks are at odds.
          for (std::uint32_t n = random() % 4 + 1; n > 0 && step(r); --n) moved = true;
        }
      }
      return judge();
    } catch (const Wrong& e) {
      return e.what();
    }
  }

 private:
  std::int32_t rank_of(std::int32_t stage) const { return schedule_.rank_of[std::size_t(stage)]; }
  bool is_last(std::int32_t stage) const { return stage + 1 == schedule_.stages(); }

  /// false: the rank waits, or is at its end.
  bool step(std::size_t r) {
    Rank& rank = ranks_[r];
    if (rank.next == schedule_.actions[r].size()) return false;
    const Action& a = schedule_.actions[r][rank.next];
    if (a.stage < 0 || a.stage >= schedule_.stages() || rank_of(a.stage) != std::int32_t(r))
      throw Wrong(to_string(a) + " on a rank without its stage");
    if (is_compute(a.kind) && sharded_.contains(a.stage)) throw Wrong(to_string(a) + " without parameters");
    if (!take(a, r)) return false;
    ++rank.next;
    return true;
  }

  bool take(const Action& a, std::size_t r) {
    switch (a.kind) {
      case ActionKind::Forward: return forward(a, ranks_[r]);
      case ActionKind::Backward: return backward(a, ranks_[r], true);
      case ActionKind::InputGradient: return backward(a, ranks_[r], false);
      case ActionKind::WeightGradient: return weights(a, ranks_[r]);
      case ActionKind::Recompute: return recompute(a, ranks_[r]);
      case ActionKind::SendActivation: return send(a, r, ranks_[r].outputs, a.stage + 1);
      case ActionKind::SendGradient: return send(a, r, ranks_[r].input_gradients, a.stage - 1);
      case ActionKind::ReceiveActivation: return post(a, r, a.stage - 1);
      case ActionKind::ReceiveGradient: return post(a, r, a.stage + 1);
      case ActionKind::Unshard:
        if (sharded_.erase(a.stage) == 0) throw Wrong(to_string(a) + " a second time");
        return true;
      case ActionKind::Reshard:
        if (!sharded_.insert(a.stage).second) throw Wrong(to_string(a) + " a second time");
        return true;
      case ActionKind::Reduce:
        if (std::exchange(reduced_[a.stage], sums_[std::size_t(a.stage)]) == sums_[std::size_t(a.stage)])
          throw Wrong("nothing to reduce");
        return true;
    }
    return false;
  }

  static void put(std::map<Key, Symbol>& there, const Action& a, Symbol value) {
    if (!there.try_emplace({a.stage, a.micro_batch}, value).second) throw Wrong(to_string(a) + " a second time");
  }

  bool forward(const Action& a, Rank& rank) {
    const Key key{a.stage, a.micro_batch}, before{a.stage - 1, a.micro_batch};
    if (a.stage == 0) rank.inputs.try_emplace(key, batch(a));
    if (a.stage > 0 && rank_of(a.stage - 1) == rank_of(a.stage)) {
      if (!rank.outputs.contains(before)) return false;
      rank.inputs.try_emplace(key, rank.outputs[before]);
    }
    if (!rank.inputs.contains(key)) return false;
    put(rank.outputs, a, output(a, rank.inputs[key]));
    if (!recomputed_.contains(key)) rank.kept.insert(key);
    return true;
  }

  bool recompute(const Action& a, Rank& rank) {
    const Key key{a.stage, a.micro_batch};
    if (!rank.outputs.contains(key)) return false;
    if (!rank.kept.insert(key).second) throw Wrong(to_string(a) + " a second time");
    return true;
  }

  bool backward(const Action& a, Rank& rank, bool weights_too) {
    const Key key{a.stage, a.micro_batch}, after{a.stage + 1, a.micro_batch};
    if (!rank.kept.contains(key)) return false;
    if (is_last(a.stage)) rank.gradients.try_emplace(key, loss_gradient(a, rank.outputs[key]));
    if (!is_last(a.stage) && rank_of(a.stage) == rank_of(a.stage + 1)) {
      if (!rank.input_gradients.contains(after)) return false;
      rank.gradients.try_emplace(key, rank.input_gradients[after]);
    }
    if (!rank.gradients.contains(key)) return false;
    const Symbol in = rank.inputs[key], gradient = rank.gradients[key];
    put(rank.input_gradients, a, input_gradient(a, in, gradient));
    const Symbol of_weights = weight_gradient(a, in, gradient);
    if (weights_too) {
      sums_[std::size_t(a.stage)] += of_weights;
    } else {
      put(rank.left_for_weights, a, of_weights);
    }
    return true;
  }

  bool weights(const Action& a, Rank& rank) {
    const auto left = rank.left_for_weights.find({a.stage, a.micro_batch});
    if (left == rank.left_for_weights.end()) return false;
    sums_[std::size_t(a.stage)] += left->second;
    left->second = 0;
    if (!weighted_.insert({a.stage, a.micro_batch}).second) throw Wrong(to_string(a) + " a second time");
    return true;
  }

  bool send(const Action& a, std::size_t r, const std::map<Key, Symbol>& values, std::int32_t other) {
    const auto value = values.find({a.stage, a.micro_batch});
    if (other < 0 || other >= schedule_.stages() || rank_of(other) == std::int32_t(r)) throw Wrong("sent to nobody");
    if (value == values.end()) return false;
    Queue& queue = queues_[{std::int32_t(r), rank_of(other)}];
    const auto posted = queue.posted.size();
    if (!offered_.contains({r, ranks_[r].next})) {
      if (most_ && *most_ > 0 && queue.sent.size() >= posted + std::size_t(*most_)) return false;
      queue.sent.push_back(value->second);
      offered_.insert({r, ranks_[r].next});
      pass(queue, rank_of(other));
    }
    // A send without any room waits, on offer, until its own receive is posted.
    return most_ != 0 || posted >= queue.sent.size();
  }

  bool post(const Action& a, std::size_t r, std::int32_t other) {
    if (other < 0 || other >= schedule_.stages() || rank_of(other) == std::int32_t(r))
      throw Wrong("received of nobody");
    Queue& queue = queues_[{rank_of(other), std::int32_t(r)}];
    queue.posted.push_back({a.kind == ActionKind::ReceiveGradient, {a.stage, a.micro_batch}});
    pass(queue, std::int32_t(r));
    return true;
  }

  void pass(Queue& queue, std::int32_t to) {
    Rank& rank = ranks_[std::size_t(to)];
    for (; queue.passed < std::min(queue.sent.size(), queue.posted.size()); ++queue.passed) {
      const auto& [is_gradient, key] = queue.posted[queue.passed];
      auto& there = is_gradient ? rank.gradients : rank.inputs;
      if (!there.try_emplace(key, queue.sent[queue.passed]).second) throw Wrong("received twice");
    }
  }

  std::string judge() const {
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      if (ranks_[r].next < schedule_.actions[r].size())
        return "waits: " + to_string(schedule_.actions[r][ranks_[r].next]);
    }
    for (const auto& [pair, queue] : queues_) {
      if (queue.sent.size() != queue.posted.size()) return "a message is left over";
    }
    const std::vector<Symbol> sums = expected(schedule_);
    if (sums_ != sums) return "other gradients";
    for (const auto& [stage, sum] : reduced_) {
      if (reduced_.size() != sums.size() || sum != sums[std::size_t(stage)]) return "other reduced gradients";
    }
    for (const auto& actions : schedule_.actions) {
      for (const Action& a : actions) {
        if (a.kind == ActionKind::Unshard && !sharded_.contains(a.stage)) return "not resharded";
      }
    }
    return {};
  }

  const PipelineSchedule& schedule_;
  std::optional<std::int32_t> most_;
  std::vector<Rank> ranks_;
  std::vector<Symbol> sums_;
  std::map<Key, Queue> queues_;
  std::set<std::int32_t> sharded_;
  std::set<Key> recomputed_, weighted_;
  std::map<std::int32_t, Symbol> reduced_;
  std::set<std::pair<std::size_t, std::size_t>> offered_;  // sends, by rank and place
};

}  // namespace

std::string execute(const PipelineSchedule& schedule, std::mt19937& random,
                    std::optional<std::int32_t> most_under_way) {
  return Executor(schedule, most_under_way).run(random);
}

}  // namespace sinew::parallel::test
