#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <sinew/core/net/event_loop.hpp>
#include <sinew/tools/run/output/last_lines.hpp>
#include <sinew/tools/run/output/rank_logs.hpp>

#include "rank_events.hpp"

namespace sinew::run {

/// What the ranks of one host are started with.
struct LocalPlan {
  std::vector<std::string> command;
  Variables environment;  ///< the same for all of them
  std::string folder;     ///< empty: ours
  int first = 0;
  int count = 0;
  int ranks = 0;         ///< of the whole job
  int local_first = 0;   ///< LOCAL_RANK of the first one; above 0 where other processes start ranks of this host, too
  int local_ranks = 0;   ///< LOCAL_WORLD_SIZE; 0: count
  bool elastic = false;  ///< the processes get no RANK: World::from_environment() tells them their ranks
  int input = -1;        ///< rank 0's standard input; the others read nothing
  LogOptions logs;
};

/// Returns how many of the ranks of a plan one process can start and watch, with the descriptors that it may open. It
/// raises the limit for itself and the ranks as far as it may. `served`: ranks that hold a connection to its store.
int ranks_for_one_process(const LocalPlan& plan, int served);

/// Ranks that are children of this process.
class LocalRanks final : public Ranks {
 public:
  LocalRanks(EventLoop& loop, RankEvents events) : loop_(loop), events_(std::move(events)) {}
  ~LocalRanks() override;

  /// Errors: Error{InvalidArgument} if the log files cannot be made, and then none runs, or if the program cannot be
  /// run; those already started are running.
  void start(const LocalPlan& plan);
  int running() const noexcept override { return static_cast<int>(processes_.size()); }
  void signal(int number) override;
  void hold_all(Stream stream, bool on) override;
  void hold_one(Source source, bool on) override;
  void reap() override;
  pid_t pid_of(int rank) const;

 private:
  void watch(Source source, FileDescriptor& descriptor);
  void drain(Source source, FileDescriptor& descriptor);
  void hear(Source source, std::string_view bytes);
  void take_rest(Source source, const FileDescriptor& descriptor);
  bool is_held(Source source) const noexcept;
  void apply_holds();

  EventLoop& loop_;
  RankEvents events_;
  std::map<int, Process> processes_;            // by rank
  std::map<Source, EventLoop::Watch> watches_;  // of their pipes, as long as these are read
  std::set<Stream> held_;                       // of all ranks
  std::set<Source> held_alone_;                 // of one each
  std::optional<RankLogs> logs_;
  std::map<int, LastLines> last_errors_;  // by rank
};

}  // namespace sinew::run
