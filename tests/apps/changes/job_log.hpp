#pragma once

#include <sys/types.h>

#include <cstdint>
#include <fstream>
#include <set>
#include <string>
#include <vector>

namespace changes {

/// "3 of 4 ranks go on with step 12, ...": what gpt's rank 0 said of a change.
struct Resumption {
  enum class Effect : std::uint8_t { Fewer, Joined, Replaced };
  Effect effect = Effect::Replaced;
  int ranks = 0;
  std::int64_t step = 0;  ///< the first one after the change
  double transfer_s = 0;  ///< the part of the change in which state moved
};

/// Follows what a job prints while it runs.
class JobLog {
 public:
  /// ranks: with which the job begins.
  JobLog(std::string file, int ranks) : file_(std::move(file)), ranks_(ranks) {}

  /// Reads the lines that have come. Returns the changes that they tell of.
  std::vector<Resumption> read();

  /// The ranks with which the job has gone on last.
  int ranks() const noexcept { return ranks_; }
  /// The processes whose end sinew-run has reported.
  int reported() const noexcept { return reported_; }
  /// The processes that errors of ranks name as dead.
  const std::set<pid_t>& named() const noexcept { return named_; }
  /// Errors of ranks, after which the job went on, that name no rank.
  const std::vector<std::string>& nameless() const noexcept { return nameless_; }
  /// The end of everything that the job has printed.
  std::string end() const;

 private:
  void read_line(const std::string& line, std::vector<Resumption>& resumptions);

  std::string file_;
  int ranks_;
  std::streamoff at_ = 0;
  int reported_ = 0;
  std::set<pid_t> named_;
  std::vector<std::string> nameless_;
};

}  // namespace changes
