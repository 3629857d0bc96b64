#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/common/at.hpp>
#include <sinew/parallel/step_graph/check.hpp>
#include <sinew/parallel/step_graph/runner.hpp>

namespace sinew::parallel {
StepRunner::StepRunner(StepGraph graph, StepActions& actions)
    : graph_(std::move(graph)), actions_(&actions), needs_(needs_of(graph_)), needed_by_(graph_.nodes.size()) {
  const std::string wrong = check(graph_);
  if (!wrong.empty()) throw Error(Code::InvalidArgument, "step graph: " + wrong);
  wait_of_.assign(at(graph_.next_exchange()), -1);
  for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
    const Node& node = graph_.nodes[i];
    const auto self = static_cast<std::int32_t>(i);
    for (const std::int32_t need : needs_[i]) needed_by_[at(need)].push_back(self);
    if (is_exchange(node.kind)) {
      exchanges_.push_back(self);
    } else if (node.kind == NodeKind::Wait) {
      wait_of_[at(node.exchange)] = self;
    }
  }
  begin();
}

std::int32_t StepRunner::find(NodeKind kind, std::string_view name) const {
  const auto found =
      std::ranges::find_if(graph_.nodes, [&](const Node& n) { return n.kind == kind && n.name == name; });
  if (found != graph_.nodes.end()) return static_cast<std::int32_t>(found - graph_.nodes.begin());
  throw Error(Code::InvalidArgument, fmt::format("step: there is no {} '{}'", name_of(kind), name));
}

StepRunner::~StepRunner() {
  wait_for_underway();
  actions_->waits().give_up_pass();
}

/// Waits until the exchanges in flight have ended, with or without errors: the step ends anyway.
void StepRunner::wait_for_underway() noexcept {
  for (Underway& u : underway_) {
    try {
      u.work.get();
    } catch (const Error&) {
    }
  }
  underway_.clear();
}

void StepRunner::begin() {
  states_.assign(graph_.nodes.size(), {});
  for (std::size_t i = 0; i < needs_.size(); ++i) states_[i].unmet = static_cast<std::int32_t>(needs_[i].size());
  reported_.clear();
  next_ = 0;
  failed_.reset();
}

void StepRunner::require_sound() const {
  if (failed_) throw *failed_;
}

void StepRunner::signal(std::int32_t node) {
  require_sound();
  State& state = states_[at(node)];
  if (state.done) {
    throw Error(Code::InvalidArgument,
                fmt::format("step: '{}' was reported {} times, expected {} in a step", graph_.nodes[at(node)].name,
                            state.reports + 1, graph_.nodes[at(node)].times));
  }
  if (state.reports++ == 0) reported_.push_back(node);
  if (state.reports < graph_.nodes[at(node)].times) return;
  done(node);
  start_ready();
}

void StepRunner::done(std::int32_t node) {
  states_[at(node)].done = true;
  for (const std::int32_t next : needed_by_[at(node)]) {
    if (--states_[at(next)].unmet > 0 || graph_.nodes[at(next)].kind != NodeKind::Free) continue;
    actions_->free(graph_.nodes[at(next)]);
    done(next);
  }
}

void StepRunner::start_ready() {
  for (;;) {
    while (!underway_.empty() && underway_.front().work.test()) finish_at(0);
    if (next_ == exchanges_.size() || states_[at(exchanges_[next_])].unmet > 0) return;
    start_next();
  }
}

void StepRunner::start_next() {
  const std::int32_t node = exchanges_[next_];
  underway_.push_back({node, actions_->start(graph_.nodes[at(node)])});
  ++next_;
  done(node);
}

void StepRunner::finish_at(std::size_t place) {
  Underway one = std::move(underway_[place]);
  underway_.erase(underway_.begin() + static_cast<std::ptrdiff_t>(place));
  try {
    actions_->await(one.work);
  } catch (const Error& e) {
    failed_ = e;
    throw;
  }
  if (!one.work.done()) actions_->waits().add(std::move(one.work));
  actions_->end(graph_.nodes[at(one.node)]);
  done(wait_of_[at(graph_.nodes[at(one.node)].exchange)]);
}

/// The index, among exchanges in flight, of the message for which a node waits. If the node waits for no message, the
/// index of the oldest exchange: collectives end in their order, and their memory is freed in this order.
std::size_t StepRunner::place_for(std::int32_t node) const {
  for (std::size_t place = 0; place < underway_.size(); ++place) {
    const Node& exchange = graph_.nodes[at(underway_[place].node)];
    if (!is_message(exchange.kind)) continue;
    const std::int32_t wait = wait_of_[at(exchange.exchange)];
    if (wait == node || std::ranges::find(needs_[at(node)], wait) != needs_[at(node)].end()) return place;
  }
  return 0;
}

bool StepRunner::finish_one() {
  require_sound();
  if (underway_.empty()) return false;
  finish_at(0);
  start_ready();
  return true;
}

void StepRunner::abandon() {
  const auto free_of = [this](std::size_t exchange) {
    actions_->free({.kind = NodeKind::Free, .tensors = graph_.nodes[at(exchanges_[exchange])].tensors});
  };
  try {
    while (!underway_.empty()) finish_at(0);
    // Frees the memory of exchanges that have ended, to have room for the remaining ones.
    for (std::size_t started = 0; started < next_; ++started) free_of(started);
    while (next_ < exchanges_.size()) {
      start_next();
      finish_at(0);
      free_of(next_ - 1);
    }
  } catch (...) {
    wait_for_underway();
    actions_->waits().give_up_pass();
    begin();
    throw;
  }
  actions_->waits().give_up_pass();
  begin();
}

void StepRunner::gate(std::int32_t node) {
  require_sound();
  if (states_[at(node)].done) {
    throw Error(
        Code::InvalidArgument,
        fmt::format("step: '{}' was begun twice, expected once in a step; a step that was left is given up first",
                    graph_.nodes[at(node)].name));
  }
  start_ready();
  for (const std::int32_t wait : needs_[at(node)]) {
    while (!states_[at(wait)].done) {
      if (underway_.empty()) complain({wait}, fmt::format("'{}' cannot begin", graph_.nodes[at(node)].name));
      finish_at(place_for(wait));
      start_ready();
    }
  }
  states_[at(node)].done = true;
}

void StepRunner::finish() {
  try {
    require_sound();
    start_ready();
    while (!underway_.empty()) {
      finish_at(0);
      start_ready();
    }
    actions_->waits().end_pass();
  } catch (...) {
    wait_for_underway();
    actions_->waits().end_failed_pass();
    begin();
    throw;
  }
  std::vector<std::int32_t> open;
  for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
    if (graph_.nodes[i].kind != NodeKind::Gate && !states_[i].done) open.push_back(static_cast<std::int32_t>(i));
  }
  if (!open.empty()) complain(std::move(open), "it cannot end");
  begin();
}

/// Throws an error that names the signals that were not reported, and on which an open node or the next exchange
/// depends.
/// open: the nodes that are not done.
void StepRunner::complain(std::vector<std::int32_t> open, std::string_view doing) const {
  if (next_ < exchanges_.size()) open.push_back(exchanges_[next_]);
  std::vector<std::string> missing;
  std::vector<bool> seen(graph_.nodes.size(), false);
  while (!open.empty()) {
    const std::int32_t i = open.back();
    open.pop_back();
    if (seen[at(i)] || states_[at(i)].done) continue;
    seen[at(i)] = true;
    const Node& n = graph_.nodes[at(i)];
    if (n.kind == NodeKind::Signal)
      missing.push_back(n.times == 1 ? fmt::format("'{}'", n.name)
                                     : fmt::format("'{}' ({} of {} times)", n.name, states_[at(i)].reports, n.times));
    open.insert(open.end(), needs_[at(i)].begin(), needs_[at(i)].end());
  }
  std::ranges::sort(missing);
  throw Error(Code::InvalidArgument, fmt::format("step: {}: not reported: {}", doing, fmt::join(missing, ", ")));
}

}  // namespace sinew::parallel
