#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include <sinew/core/deadline.hpp>

#include "process.hpp"

namespace sinew::run {

/// Collects how the ranks of a failed job ended, for the lines that sinew-run prints at its end.
class FailureSummary {
 public:
  /// A rank that did not end well. `by_launcher`: sinew-run ended it because another rank had failed before.
  void add(int rank, const std::string& host, const Ending& ending, bool by_launcher);

  /// The first failure with the last lines of its standard error, what became of other ranks, and where the log files
  /// are. Empty: no rank failed. `logs`: the folder of this start; empty: there are none.
  std::vector<std::string> lines(const std::string& logs) const;

 private:
  struct First {
    int rank;
    std::string host;
    Ending ending;
    std::chrono::system_clock::time_point when;
    Duration after;  // the start
  };
  Clock::time_point start_ = Clock::now();
  std::vector<First> first_;                        // one, once a rank has failed
  std::vector<int> ended_;                          // by sinew-run
  std::map<std::string, std::vector<int>> failed_;  // after the first one, by what Ending::text says
};

}  // namespace sinew::run
