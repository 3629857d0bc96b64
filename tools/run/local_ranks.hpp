#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "event_loop.hpp"
#include "rank_events.hpp"

namespace sinew::run {

/// What the ranks of one host are started with.
struct LocalPlan {
  std::vector<std::string> command;
  std::vector<std::pair<std::string, std::string>> environment;  ///< the same for all of them
  std::string folder;                                            ///< empty: ours
  int first = 0;
  int count = 0;
  int ranks = 0;   ///< of the whole job
  int input = -1;  ///< rank 0's standard input; the others read nothing
};

/// Ranks that are children of this process.
class LocalRanks final : public Ranks {
 public:
  LocalRanks(EventLoop& loop, RankEvents events) : loop_(loop), events_(std::move(events)) {}
  ~LocalRanks() override;

  /// Errors: Error{InvalidArgument} if the program cannot be run; those already started are running.
  void start(const LocalPlan& plan);
  int running() const noexcept override { return static_cast<int>(processes_.size()); }
  void signal(int number) override;
  void hold(Stream stream, bool on) override;
  void reap() override;
  pid_t pid_of(int rank) const;

 private:
  void watch(int rank, Stream stream, FileDescriptor& descriptor);
  void drain(int rank, Stream stream, FileDescriptor& descriptor);
  void take_rest(int rank, Stream stream, const FileDescriptor& descriptor);

  EventLoop& loop_;
  RankEvents events_;
  std::map<int, Process> processes_;  // by rank
  std::set<Stream> held_;
};

}  // namespace sinew::run
