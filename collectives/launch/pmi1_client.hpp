#pragma once

#include <map>
#include <string>
#include <string_view>

#include <sinew/core/deadline.hpp>

namespace sinew {

/// The client's side of PMI-1's wire protocol: lines of "cmd=NAME key=value ...", one answer to each.
/// Thread: one at a time. Errors: Unavailable where the server does not speak it; Timeout; System if the line is cut.
///         They show no value that is put.
class Pmi1Client {
 public:
  /// Does not own the descriptor. May come before or after MPI_Init, which says the same things on the same line.
  Pmi1Client(int descriptor, Deadline deadline);

  /// The name of the job's key space: equal on all ranks, of no other job.
  const std::string& key_space() const noexcept { return key_space_; }
  std::size_t longest_value() const noexcept { return longest_value_; }

  void put(const std::string& key, const std::string& value, Deadline deadline);
  /// What was put before the last barrier.
  std::string get(const std::string& key, Deadline deadline);
  /// Of all ranks of the job.
  void barrier(Deadline deadline);
  void finalize(Deadline deadline);

 private:
  using Fields = std::map<std::string, std::string, std::less<>>;
  Fields ask(const std::string& request, std::string_view answer, Deadline deadline);
  std::string read_line(Deadline deadline);

  int descriptor_;
  std::string key_space_;
  std::size_t longest_value_ = 0;
};

}  // namespace sinew
