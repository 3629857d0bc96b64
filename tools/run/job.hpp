#pragma once

#include <map>
#include <optional>
#include <string_view>

#include <sinew/core/config.hpp>
#include <sinew/core/deadline.hpp>
#include <sinew/core/net/event_loop.hpp>
#include <sinew/tools/run/output/line_printer.hpp>

#include "backoff.hpp"
#include "failure_summary.hpp"
#include "fleet.hpp"
#include "options.hpp"
#include "signals.hpp"

namespace sinew::run {

/// One start of all ranks, until all have ended: prints what they print, and decides what a failure or a signal does
/// to the others.
class Job {
 public:
  /// After a user's signal, with whoever reads the output of ranks that have ended.
  static constexpr Duration kReaderPatience = std::chrono::seconds(1);

  /// `attempt`: how many starts came before this one.
  Job(const Options& options, int attempt, const Config& config, const SignalDescriptor& signals,
      InsideLine& inside_line);

  /// Starts the ranks. Errors: as Fleet::start.
  void start();
  /// Waits until all ranks have ended and their output has been read; the exit code.
  int finish();
  /// Says something on stderr.
  void report(std::string_view what);
  /// What ranks printed could not be written.
  bool output_lost() const noexcept { return printer_.lost(); }
  /// No restart: a user's signal ended the job, nobody reads its output any more, or its ranks have saved their state
  /// and left.
  bool is_over() const noexcept;

 private:
  LinePrinter::Hold holding();
  RankEvents events();
  int exit_code() const noexcept;
  void on_ended(int rank, const Ending& ending);
  void on_saved(int rank, const Ending& ending);
  void on_member_ended(int number, const Ending& ending);
  void bring_back(int number);
  void start_again(int number);
  bool awaits_return() const noexcept;
  void close_output();
  void on_signals();
  /// Somebody wants the job to end. Asked twice, it ends at once.
  void interrupt(int number);
  void end_others();
  /// From now on the ranks have until --grace has passed.
  void ask_to_end(int number);
  void end_if_left_behind();
  void kill_if_late();
  void kill();
  Deadline next_look() const noexcept;

  const Options& options_;
  const LogOptions logs_;
  const SignalDescriptor& signals_;
  EventLoop loop_;
  LinePrinter printer_;
  Fleet fleet_;
  EventLoop::Watch signals_come_;
  /// A process of an elastic job that is to be started again.
  struct Return {
    EventLoop::Timer timer;
    Backoff backoff;
    Clock::time_point started = Clock::now();
    int times = 0;
    bool is_due = false;
  };
  std::map<int, Return> returns_;  // by number
  int restarts_ = 0;
  FailureSummary failures_;
  std::optional<int> exit_code_;  // of the first failure
  bool is_done_ = false;          // a process of an elastic job has ended well
  bool saved_ = false;            // a rank has ended with kSavedExitCode
  bool summed_up_ = false;
  bool ending_ = false;
  int interrupted_by_ = 0;  // the first signal of those that end a job
  int asked_by_ = 0;        // the first signal that told ranks to end
  bool killed_ = false;
  std::optional<Deadline> kill_at_;
  std::optional<Deadline> end_at_;  // when the others have had their time, since a rank has saved its state and left
};

}  // namespace sinew::run
