#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <sinew/collectives/trace/log_format.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/core/call/cost.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/system/file_descriptor.hpp>

namespace sinew {

/// What a log says of its rank and of itself. Units: ns of rank 0's clock, but `opened_realtime`.
struct LogSummary {
  std::string path;
  int rank = 0;
  int ranks = 1;
  int process = 0;
  std::uint32_t generation = 0;
  std::uint64_t job = 0;
  std::string host;
  std::string clock;
  std::int64_t opened = 0;
  std::int64_t opened_realtime = 0;
  std::int64_t clock_error = 0;  ///< below 0: how its clock lies to rank 0's is not known
  bool closed = false;           ///< the rank ended its World in order
  std::int64_t ended = 0;        ///< then, or its latest sign of life
  int truncated = 0;             ///< errno if the log could not grow; 0: it is complete
  std::uint64_t lost = 0;        ///< calls that the log does not have for that reason
  std::uint64_t calls = 0;
  std::uint64_t unfinished = 0;  ///< of them
  std::uint64_t damaged = 0;     ///< cells that cannot be what a rank has written
};

struct LoggedCommunicator {
  std::uint64_t identity = 0;
  std::uint32_t id = 0;
  int rank = 0;  ///< the log's own
  std::vector<int> world_ranks;
};

struct LoggedPlan {
  std::uint64_t bytes = 0;
  Seconds predicted = 0;
  std::string algorithm;
  std::string transport;
};

/// Times are ns of rank 0's clock.
struct LoggedCall {
  std::uint32_t communicator = 0;  ///< for RankLog::communicator()
  Fingerprint fingerprint = 0;
  std::uint64_t extent = 0;
  std::int64_t entered = 0;
  std::optional<std::int64_t> completed;
  std::uint32_t sequence = 0;
  int peer = -1;
  std::uint32_t site = 0;
  std::uint32_t plan = 0;
  Code outcome = Code::Ok;
  bool in_place = false;

  Collective collective() const noexcept { return static_cast<Collective>(fingerprint & 31); }
  bool failed() const noexcept { return completed && outcome != Code::Ok; }
};

/// One rank's log, also of a rank that goes on writing, was killed, or whose file is damaged: what cannot be read is
/// counted and passed over. Believes nothing: the file may be a stranger's.
/// Memory: the definitions; calls are read from the file each time.
class SINEW_API RankLog {
 public:
  /// Errors: Error{InvalidArgument} naming the file and what is wrong: it cannot be read, or is no log.
  explicit RankLog(const std::string& path);

  const LogSummary& about() const noexcept { return about_; }
  /// null: not defined.
  const LoggedCommunicator* communicator(std::uint32_t number) const noexcept;
  const LoggedPlan* plan(std::uint32_t number) const noexcept;
  /// Printable; empty: unknown.
  std::string site(std::uint32_t number) const;
  const std::map<std::uint32_t, LoggedCommunicator>& communicators() const noexcept { return communicators_; }

  /// Calls in the order in which the rank has begun them.
  class SINEW_API Cursor {
   public:
    explicit Cursor(const RankLog& log) : log_(&log) {}
    /// nullopt: no more.
    std::optional<LoggedCall> next();

   private:
    const RankLog* log_;
    std::vector<std::byte> block_;
    std::size_t at_ = 0;
    std::uint64_t offset_ = sizeof(LogHeader);
  };
  Cursor calls() const { return Cursor(*this); }

 private:
  struct Parts {
    std::uint32_t bytes = 0;
    std::uint32_t count = 0;
    std::string data;
  };

  std::vector<std::byte> read(std::uint64_t offset) const;
  void read_header();
  void read_cells();
  void define(CellKind kind, std::uint32_t number, const Parts& parts);
  bool add_part(const std::byte* cell, std::map<std::pair<CellKind, std::uint32_t>, Parts>& begun);
  /// nullopt: damaged.
  std::optional<LoggedCall> call_from(const std::byte* cell) const;

  LogSummary about_;
  std::shared_ptr<FileDescriptor> file_;
  std::int64_t ahead_ = 0;
  std::map<std::uint32_t, LoggedCommunicator> communicators_;
  std::map<std::uint32_t, LoggedPlan> plans_;
  std::map<std::uint32_t, std::string> sites_;
};

}  // namespace sinew
