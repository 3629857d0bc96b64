#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include <sinew/core/deadline.hpp>
#include <sinew/core/system/file_descriptor.hpp>

namespace sinew {

/// The client's side of PMI-1's wire protocol: lines of "cmd=NAME key=value ...", one answer to each.
/// Thread: one at a time. Errors: Unavailable where the server does not speak it; Timeout; System if the line is cut.
///         They show no value that is put.
class Pmi1Client {
 public:
  /// Uses the launcher's line PMI_FD and does not own it. May come before or after MPI_Init, which says the same things
  /// on the same line.
  Pmi1Client(int descriptor, Deadline deadline);
  /// Connects to the launcher's server at `port`, PMI_PORT's "HOST:PORT". The server knows this process by `id`, its
  /// PMI_ID, and answers its newest connection only: MPI_Init makes one of its own.
  Pmi1Client(const std::string& port, int id, Deadline deadline);

  bool owns_connection() const noexcept { return static_cast<bool>(owned_); }
  /// What the server at PMI_PORT says about this process; -1 on a line that is PMI_FD.
  int rank() const noexcept { return rank_; }
  int ranks() const noexcept { return ranks_; }

  /// The name of the job's key space: equal on all ranks, of no other job.
  const std::string& key_space() const noexcept { return key_space_; }
  std::size_t longest_value() const noexcept { return longest_value_; }

  void put(const std::string& key, const std::string& value, Deadline deadline);
  /// What was put before the last barrier.
  std::string get(const std::string& key, Deadline deadline);
  /// Waits until all ranks of the job have called it. Calls `late` once if that takes longer than `patience`.
  void barrier(Deadline deadline, Duration patience, std::function<void()> late);
  void finalize(Deadline deadline);

 private:
  using Fields = std::map<std::string, std::string, std::less<>>;
  void open_key_space(Deadline deadline);
  Fields ask(const std::string& request, std::string_view answer, Deadline deadline);
  Fields read_answer(std::string_view shown, std::string_view answer, Deadline deadline);
  /// The number that the server sets next. Errors: Unavailable if it sets none.
  int read_setting(const char* name, Deadline deadline);
  /// Waits until poll() reports one of the events. Errors: Timeout.
  void wait_until_ready(short events, Deadline deadline);
  std::string read_line(Deadline deadline);

  FileDescriptor owned_;
  int descriptor_;
  std::string line_;  ///< for messages: "PMI_FD=7"
  int rank_ = -1;
  int ranks_ = -1;
  std::string key_space_;
  std::size_t longest_value_ = 0;
  std::function<void()> late_;  ///< called at `late_at_` if an answer is still awaited; null: nobody is told
  Clock::time_point late_at_{};
};

}  // namespace sinew
