#include <algorithm>
#include <cstdint>
#include <deque>
#include <utility>

#include <sinew/parallel/common/at.hpp>
#include <sinew/parallel/data_parallel/memory/most_in_flight.hpp>

namespace sinew::parallel {
namespace {

/// Facts that do not change during a step: the graph, and which node follows from which.
struct Course {
  Course(const StepGraph& g, const InFlightSizes& s)
      : graph(g), sizes(s), needs(needs_of(g)), needed_by(g.nodes.size()), wait_of(at(g.next_exchange())) {
    for (std::size_t i = 0; i < g.nodes.size(); ++i) {
      const auto self = static_cast<std::int32_t>(i);
      for (const std::int32_t need : needs[i]) needed_by[at(need)].push_back(self);
      if (is_exchange(g.nodes[i].kind)) exchanges.push_back(self);
      if (g.nodes[i].kind == NodeKind::Wait) wait_of[at(g.nodes[i].exchange)] = self;
    }
  }

  const StepGraph& graph;
  const InFlightSizes& sizes;
  std::vector<std::vector<std::int32_t>> needs, needed_by;
  std::vector<std::int32_t> exchanges, wait_of;
};

/// The state of a step while it runs: which nodes are done, and which memory is in use.
class Moment {
 public:
  Moment(const Course& course, MostInFlight& most, bool adds_up)
      : course_(&course), most_(&most), unmet_(course.needs.size()), done_(course.needs.size()) {
    for (std::size_t i = 0; i < unmet_.size(); ++i) unmet_[i] = static_cast<std::int32_t>(course.needs[i].size());
    const std::size_t groups = course.sizes.parameter.size();
    wholes_.resize(2 * groups);
    parts_.resize(groups);
    sums_.resize(groups);
    codes_.resize(course.wait_of.size());
    for (std::size_t g = 0; adds_up && g < groups; ++g) make(groups + g);
    start_ready();
  }

  void signal(std::int32_t node) {
    done(node);
    start_ready();
  }
  /// The engine reaches a gate. Exchanges end, oldest first, until those for which the gate waits have ended.
  void gate(std::int32_t node) {
    const Node& gate = course_->graph.nodes[at(node)];
    for (const std::int32_t wait : course_->needs[at(node)]) {
      while (!done_[at(wait)] && finish_one()) {
      }
    }
    done_[at(node)] = true;
    if (gate.name.starts_with("backward ")) {
      for (const TensorId t : gate.tensors) make(groups() + course_->sizes.group_of[at(t)]);
    } else if (gate.name.starts_with("gradients ")) {
      for (const TensorId t : gate.tensors) make(whole_of(t));
    }
  }
  bool finish_one() {
    if (underway_.empty()) return false;
    const std::int32_t exchange = course_->graph.nodes[at(underway_.front())].exchange;
    underway_.pop_front();
    bytes_ -= std::exchange(codes_[at(exchange)], 0);
    done(course_->wait_of[at(exchange)]);
    start_ready();
    return true;
  }

 private:
  std::size_t groups() const noexcept { return parts_.size(); }
  std::size_t parameters() const noexcept { return course_->sizes.group_of.size(); }
  /// The index of a tensor's whole: parameters come first, then gradients.
  std::size_t whole_of(TensorId t) const noexcept {
    const bool is_gradient = at(t) >= parameters();
    return course_->sizes.group_of[is_gradient ? at(t) - parameters() : at(t)] + (is_gradient ? groups() : 0);
  }
  std::size_t bytes_of(std::size_t whole) const noexcept {
    return whole < groups() ? course_->sizes.parameter[whole] : course_->sizes.gradient[whole - groups()];
  }

  void make(std::size_t whole) {
    if (wholes_[whole]) return;
    wholes_[whole] = true;
    grow(bytes_of(whole), whole < groups() ? bytes_of(whole) : 0);
  }
  void drop(std::size_t whole) {
    if (wholes_[whole]) bytes_ -= bytes_of(whole);
    if (wholes_[whole] && whole < groups()) gathered_ -= bytes_of(whole);
    wholes_[whole] = false;
  }
  void drop_part(std::size_t group) { bytes_ -= std::exchange(parts_[group], 0); }
  void grow(std::size_t bytes, std::size_t gathered) {
    bytes_ += bytes;
    gathered_ += gathered;
    most_->gathered = std::max(most_->gathered, gathered_);
    if (bytes_ <= most_->bytes) return;
    most_->bytes = bytes_;
    most_->pieces.clear();
    for (std::size_t w = 0; w < wholes_.size(); ++w) {
      if (wholes_[w] && bytes_of(w) > 0) most_->pieces.push_back(bytes_of(w));
    }
    for (const auto* pieces : {&parts_, &sums_, &codes_}) {
      for (const std::size_t piece : *pieces) {
        if (piece > 0) most_->pieces.push_back(piece);
      }
    }
  }

  void free(const Node& node) {
    for (const TensorId t : node.tensors) {
      const std::size_t whole = whole_of(t);
      if (node.axes.empty()) {
        drop(whole);
        if (whole < groups()) {
          drop_part(whole);
        } else {
          bytes_ -= std::exchange(sums_[whole - groups()], 0);
        }
      } else if (wholes_[whole]) {
        parts_[whole] = bytes_of(whole) / course_->sizes.ranks(node.axes);  // both exist while the part is copied
        grow(parts_[whole], 0);
        drop(whole);
      }
    }
  }

  void done(std::int32_t node) {
    done_[at(node)] = true;
    for (const std::int32_t next : course_->needed_by[at(node)]) {
      if (--unmet_[at(next)] > 0 || course_->graph.nodes[at(next)].kind != NodeKind::Free) continue;
      free(course_->graph.nodes[at(next)]);
      done(next);
    }
  }
  void start_ready() {
    while (next_ < course_->exchanges.size() && unmet_[at(course_->exchanges[next_])] == 0) {
      const std::int32_t node = course_->exchanges[next_++];
      const Node& exchange = course_->graph.nodes[at(node)];
      const std::size_t whole = whole_of(exchange.tensors.front());
      if (!exchange.parts) make(whole);
      if (exchange.adds) {
        sums_[whole - groups()] = bytes_of(whole) / course_->sizes.ranks(exchange.axes);
        grow(sums_[whole - groups()], 0);
      }
      if (course_->sizes.codes) {
        codes_[at(exchange.exchange)] = course_->sizes.codes(exchange);
        grow(codes_[at(exchange.exchange)], 0);
      }
      underway_.push_back(node);
      done(node);
    }
  }

  const Course* course_;
  MostInFlight* most_;
  std::vector<std::int32_t> unmet_;
  std::vector<bool> done_;
  std::deque<std::int32_t> underway_;
  std::size_t next_ = 0;  // the index in `exchanges` of the next one to start
  std::vector<bool> wholes_;
  std::vector<std::size_t> parts_;  // by group: bytes of the part that a Free has kept
  std::vector<std::size_t> sums_;   // by group: bytes of a sum that a Free will add to this rank's part
  std::vector<std::size_t> codes_;  // by number of an exchange: bytes of its codes
  std::size_t bytes_ = 0, gathered_ = 0;
};

}  // namespace

MostInFlight most_in_flight(const StepGraph& graph, const InFlightSizes& sizes, bool adds_up) {
  MostInFlight most;
  const Course course(graph, sizes);
  Moment slowest(course, most, adds_up);
  const auto all_that_may_end = [&] {
    for (Moment faster = slowest; faster.finish_one();) {
    }
  };
  all_that_may_end();
  for (std::int32_t i = 0; i < std::ssize(graph.nodes); ++i) {
    const NodeKind kind = graph.nodes[at(i)].kind;
    if (kind == NodeKind::Gate) {
      slowest.gate(i);
    } else if (kind == NodeKind::Signal) {
      slowest.signal(i);
    } else {
      continue;
    }
    all_that_may_end();
  }
  return most;
}

}  // namespace sinew::parallel
