#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/work.hpp>
#include <sinew/parallel/step_graph/graph.hpp>
#include <sinew/parallel/step_graph/stream_waits.hpp>

namespace sinew::parallel {

/// The effects of a graph's nodes on memory and links. A strategy implements it for StepRunner.
class StepActions {
 public:
  virtual ~StepActions() = default;
  /// Starts an exchange. Called in the order of the graph, on all ranks alike.
  virtual Work start(const Node& exchange) = 0;
  /// Waits for an exchange. If the engine is on a device, the device's stream may wait instead. The exchange then
  /// belongs to waits(), which waits for it by the end of the next pass.
  virtual void await(Work& work) { work.get(); }
  /// Called when an exchange has been awaited without an error, before any node that waits for it. By default it does
  /// nothing.
  virtual void end(const Node& exchange) { static_cast<void>(exchange); }
  virtual void free(const Node& node) = 0;
  /// The exchanges for which only streams have waited, of all runners of these actions.
  StreamWaits& waits() noexcept { return waits_; }

 private:
  StreamWaits waits_;
};

/// Runs a graph. The engine says what it has done and what it is about to do. This releases the nodes.
/// Thread:   the World's. With Threads::Multiple exchanges go on between calls.
/// Lifetime: `actions` outlives it.
/// Errors:   InvalidArgument for a graph that check() refuses. The error of an exchange is thrown by the call that
///           waits for it, and by every later call of the step. If only a stream waits for it (StepActions::await), its
///           error is thrown by finish() of this step, or by finish() of any later one.
/// Cost:     a few memory accesses for each signal, and for each node that it releases.
class SINEW_API StepRunner {
 public:
  StepRunner(StepGraph graph, StepActions& actions);
  /// Waits for the exchanges in flight, because they use the memory of `actions`.
  ~StepRunner();
  StepRunner(const StepRunner&) = delete;
  StepRunner& operator=(const StepRunner&) = delete;

  const StepGraph& graph() const noexcept { return graph_; }
  /// The gate or signal of that name, for the calls below.
  /// Errors: InvalidArgument naming it.
  std::int32_t find(NodeKind kind, std::string_view name) const;

  /// Errors: InvalidArgument naming the signal if it is reported more often than it may be in a step.
  void signal(std::int32_t node);
  /// Returns when everything for which the gate waits has arrived.
  /// Errors: InvalidArgument naming the signals that were not reported, if an exchange could not start.
  void gate(std::int32_t node);
  /// Ends the step. Every exchange has ended, and every signal was reported. The next step may begin.
  /// Errors: as gate(). If an exchange ended with an error, the step has ended all the same.
  void finish();
  /// Waits for the oldest exchange in flight. false: there is none.
  bool finish_one();
  /// Gives the step up, and begins anew. The remaining exchanges run one after the other, because other ranks may be
  /// further and wait in them. Their data is dropped.
  /// Errors: the error of an exchange. The step has ended all the same.
  void abandon();
  /// Returns whether the signal has had all its reports in this step.
  bool is_complete(std::int32_t signal) const noexcept { return states_[static_cast<std::size_t>(signal)].done; }
  /// Between steps: nothing was reported, and nothing has started.
  bool idle() const noexcept { return reported_.empty() && next_ == 0; }
  /// The signals of this step, in the order of their first reports.
  const std::vector<std::int32_t>& reported() const noexcept { return reported_; }

 private:
  struct State {
    std::int32_t unmet = 0;
    std::int32_t reports = 0;
    bool done = false;
  };
  struct Underway {
    std::int32_t node = -1;  // the exchange
    Work work;
  };

  void begin();
  void wait_for_underway() noexcept;
  void done(std::int32_t node);
  void start_ready();
  void finish_at(std::size_t place);
  std::size_t place_for(std::int32_t node) const;
  void start_next();
  void require_sound() const;
  [[noreturn]] void complain(std::vector<std::int32_t> open, std::string_view doing) const;

  StepGraph graph_;
  StepActions* actions_;
  std::vector<std::vector<std::int32_t>> needs_, needed_by_;
  std::vector<std::int32_t> exchanges_, wait_of_;  // wait_of_: by number of the exchange
  std::vector<State> states_;
  std::vector<std::int32_t> reported_;
  std::deque<Underway> underway_;
  std::size_t next_ = 0;  // the index in exchanges_ of the next one to start
  std::optional<Error> failed_;
};

}  // namespace sinew::parallel
