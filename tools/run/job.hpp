#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sinew/core/config.hpp>
#include <sinew/core/deadline.hpp>
#include <sinew/core/net/event_loop.hpp>
#include <sinew/core/store/store_server.hpp>

#include "line_printer.hpp"
#include "options.hpp"
#include "rank_events.hpp"
#include "signals.hpp"

namespace sinew::run {

/// One start of all ranks, until all have ended. Serves their store: at a UNIX socket here, and over TCP if some are on
/// other hosts.
class Job {
 public:
  /// After a user's signal, with whoever reads the output of ranks that have ended.
  static constexpr Duration kReaderPatience = std::chrono::seconds(1);

  Job(const Options& options, const Config& config, const SignalDescriptor& signals, InsideLine& inside_line);

  /// Starts the ranks. Errors: Error{InvalidArgument} if the program cannot be run.
  void start();
  /// Waits until all ranks have ended and their output has been read; the exit code.
  int finish();
  /// Says something on stderr.
  void report(std::string_view what);
  /// What ranks printed could not be written.
  bool output_lost() const noexcept { return printer_.lost(); }
  /// A user's signal ended it, or that nobody reads its output any more: no restart.
  bool is_unwanted() const noexcept { return interrupted_by_ != 0 || printer_.closed(); }

 private:
  LinePrinter::Hold holding();
  void start_share(const HostShare& share, int first, int input);
  void on_ended(int rank, const Ending& ending);
  void on_broken(const std::string& why);
  void on_signals();
  /// Somebody wants the job to end. Asked twice, it ends at once.
  void interrupt(int number);
  void end_others();
  /// From now on the ranks have until --grace has passed.
  void ask_to_end(int number);
  void kill_if_late();
  void kill();
  void signal_all(int number);
  int running() const noexcept;
  Deadline next_look() const noexcept;
  std::string master_address() const;

  const Options& options_;
  const Config& config_;
  const SignalDescriptor& signals_;
  EventLoop loop_;
  LinePrinter printer_;
  Bytes secret_;
  StoreServer store_;
  std::optional<ListeningPort> port_;  // empty if all ranks are on this host
  ListeningPort::Service serves_store_;
  EventLoop::Watch signals_come_;
  std::uint16_t master_port_ = 0;
  std::string name_;
  std::string store_addresses_;
  std::vector<std::unique_ptr<Ranks>> ranks_;
  std::optional<int> exit_code_;  // of the first failure
  bool ending_ = false;
  int interrupted_by_ = 0;  // the first signal of those that end a job
  int asked_by_ = 0;        // the first signal that told ranks to end
  bool killed_ = false;
  std::optional<Deadline> kill_at_;
};

}  // namespace sinew::run
