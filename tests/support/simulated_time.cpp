#include "simulated_time.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <stdexcept>
#include <tuple>

#include <sinew/collectives/execution/executable.hpp>

namespace sinew::test {
namespace {

class Simulation {
 public:
  Simulation(const Selection& selection, const CollectiveDesc& desc, const Facts& facts)
      : selection_(selection), facts_(facts), ranks_(facts.ranks.size()) {
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      Rank& rank = ranks_[r];
      Program program = selection.recipe->build(desc, static_cast<int>(r), static_cast<int>(ranks_.size()), false);
      rank.code = Executable::make(desc, std::move(program), selection.segmentation, [](int) { return nullptr; });
    }
  }

  Seconds run() {
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      for (std::uint32_t d = 0; d < ranks_[r].code->depth; ++d) start_segment(r, 0);
    }
    while (!events_.empty() || !flows_.empty()) {
      const Seconds next = events_.empty() ? std::numeric_limits<Seconds>::infinity() : events_.top().at;
      if (const auto first = first_flow_over(); first.second <= next) {
        flow_until(first.second);
        flow_over(first.first);
        continue;
      }
      flow_until(next);
      const Event e = events_.top();
      events_.pop();
      e.over ? step_over(e) : step_begins(e);
    }
    for (const Rank& r : ranks_) {
      if (r.segments_over < r.code->segments) throw std::logic_error("the schedule stands still");
    }
    return now_;
  }

 private:
  struct Rank {
    std::unique_ptr<Executable> code;
    std::uint32_t next_segment = 0;
    std::uint32_t segments_over = 0;
    std::map<std::uint32_t, std::vector<std::uint32_t>> waits_for;  ///< by segment under way
    std::map<std::uint32_t, std::size_t> steps_left;
    Seconds core_free = 0;
    int sending = 0, receiving = 0;  ///< messages at a time
  };
  /// Of one step in one segment of one rank.
  struct Event {
    Seconds at;
    std::uint64_t order;  ///< of two at a time the one that was known first
    std::size_t rank;
    std::uint32_t segment, step;
    bool over;
    bool operator>(const Event& e) const { return std::tie(at, order) > std::tie(e.at, e.order); }
  };
  /// A message on its way.
  struct Flow {
    Event send, recv;
    Seconds latency;  ///< once its last byte has left
    Seconds left;     ///< if it were alone
    double bytes;
  };
  /// From, to, segment, match.
  using Message = std::tuple<std::size_t, std::size_t, std::uint32_t, std::uint32_t>;

  void add(Seconds at, std::size_t rank, std::uint32_t segment, std::uint32_t step, bool over) {
    events_.push({at, order_++, rank, segment, step, over});
  }

  void start_segment(std::size_t r, Seconds now) {
    Rank& rank = ranks_[r];
    if (rank.next_segment == rank.code->segments) return;
    const std::uint32_t segment = rank.next_segment++;
    rank.waits_for[segment] = rank.code->waits_for;
    rank.steps_left[segment] = rank.code->program.steps.size();
    if (rank.code->program.steps.empty()) return segment_over(r, segment, now);
    for (std::uint32_t s = 0; s < rank.code->program.steps.size(); ++s) {
      if (rank.code->waits_for[s] == 0) add(now, r, segment, s, false);
    }
  }

  void segment_over(std::size_t r, std::uint32_t segment, Seconds now) {
    Rank& rank = ranks_[r];
    ++rank.segments_over;
    rank.waits_for.erase(segment);
    rank.steps_left.erase(segment);
    start_segment(r, now);
  }

  /// Of one segment, or of all.
  double bytes(const Rank& rank, const Slice& slice, std::optional<std::uint32_t> segment) const {
    const Executable& e = *rank.code;
    const auto& row = slice.space == Space::In    ? e.chunks.in
                      : slice.space == Space::Out ? e.chunks.out
                                                  : e.chunks.scratch;
    std::uint64_t elements = 0;
    for (std::uint32_t c = 0; c < slice.count; ++c) {
      const Extent chunk = row[slice.first + c];
      elements += segment ? segment_of(chunk, *segment, e.segments, e.unit).count : chunk.count;
    }
    return static_cast<double>(elements * e.element_bytes);
  }

  /// On the rank's core, from `now` on or when it is free.
  Seconds computed(Rank& rank, Seconds now, double bytes, double bytes_per_s) {
    rank.core_free = std::max(rank.core_free, now) + bytes / bytes_per_s;
    return rank.core_free;
  }

  void step_begins(const Event& e) {
    Rank& rank = ranks_[e.rank];
    const Step& step = rank.code->program.steps[e.step];
    if (step.op == Op::Copy || step.op == Op::Reduce) {
      const double rate = step.op == Op::Copy ? facts_.copy_bytes_per_s : facts_.reduce_bytes_per_s;
      add(computed(rank, e.at, bytes(rank, step.dst, e.segment), rate), e.rank, e.segment, e.step, true);
      return;
    }
    const auto peer = static_cast<std::size_t>(step.peer);
    const bool sends = step.op == Op::Send;
    const Message message{sends ? e.rank : peer, sends ? peer : e.rank, e.segment, step.match};
    const auto other = posted_.find(message);
    if (other == posted_.end()) {
      posted_.emplace(message, e);
      return;
    }
    sends ? begin_flow(e, other->second) : begin_flow(other->second, e);
    posted_.erase(other);
  }

  void begin_flow(const Event& send, const Event& recv) {
    Rank& to = ranks_[recv.rank];
    const auto a = static_cast<int>(send.rank);
    const auto b = static_cast<int>(recv.rank);
    const std::string& transport = selection_.transports.by_class.at(facts_.class_of(a, b));
    const CostCurve& curve = facts_.reach(a, b, transport).cost;
    const Slice& slice = to.code->program.steps[recv.step].dst;
    const double length = bytes(to, slice, recv.segment);
    const double uncut = bytes(to, slice, std::nullopt);
    const auto moving = [&](double n) { return curve.seconds(n) - curve.seconds(0); };
    // A piece of what is long in all comes from memory, not from a cache.
    const Seconds alone = length > 0 ? std::max(moving(length), moving(uncut) * length / uncut) : 0;
    flows_.push_back({send, recv, curve.seconds(0), alone, length});
    ++ranks_[send.rank].sending;
    ++to.receiving;
  }

  /// What a second of a message takes while others share the way out of its sender, or into its receiver.
  Seconds slowness(const Flow& f) const { return std::max(ranks_[f.send.rank].sending, ranks_[f.recv.rank].receiving); }

  std::pair<std::size_t, Seconds> first_flow_over() const {
    std::pair<std::size_t, Seconds> first{0, std::numeric_limits<Seconds>::infinity()};
    for (std::size_t i = 0; i < flows_.size(); ++i) {
      const Seconds over = now_ + flows_[i].left * slowness(flows_[i]);
      if (over < first.second) first = {i, over};
    }
    return first;
  }

  void flow_until(Seconds time) {
    for (Flow& f : flows_) f.left = std::max(f.left - (time - now_) / slowness(f), 0.0);
    now_ = time;
  }

  void flow_over(std::size_t which) {
    const Flow f = flows_[which];
    flows_.erase(flows_.begin() + static_cast<std::ptrdiff_t>(which));
    Rank& to = ranks_[f.recv.rank];
    --ranks_[f.send.rank].sending;
    --to.receiving;
    const Seconds there = now_ + f.latency;
    add(there, f.send.rank, f.send.segment, f.send.step, true);
    const bool reduces = to.code->program.steps[f.recv.step].a.count > 0;
    const Seconds used = reduces ? computed(to, there, f.bytes, facts_.reduce_bytes_per_s) : there;
    add(used, f.recv.rank, f.recv.segment, f.recv.step, true);
  }

  void step_over(const Event& e) {
    Rank& rank = ranks_[e.rank];
    const Executable& code = *rank.code;
    std::vector<std::uint32_t>& waits = rank.waits_for[e.segment];
    for (std::uint32_t f = code.follower_first[e.step]; f < code.follower_first[e.step + 1]; ++f) {
      if (--waits[code.followers[f]] == 0) add(e.at, e.rank, e.segment, code.followers[f], false);
    }
    if (--rank.steps_left[e.segment] == 0) segment_over(e.rank, e.segment, e.at);
  }

  const Selection& selection_;
  const Facts& facts_;
  std::vector<Rank> ranks_;
  std::map<Message, Event> posted_;
  std::vector<Flow> flows_;
  Seconds now_ = 0;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::uint64_t order_ = 0;
};

}  // namespace

Seconds simulated_time(const Selection& selection, const CollectiveDesc& desc, const Facts& facts) {
  return Simulation(selection, desc, facts).run();
}

}  // namespace sinew::test
