#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/core/runtime/call_record.hpp>

namespace sinew {

/// The records of one rank of a job, seen from outside of it.
struct RankRecords {
  int rank = -1;
  pid_t process = 0;
  char state = '\0';                       ///< as state_of_process(); 0: it is gone
  std::shared_ptr<const RecordPage> page;  ///< null: there are none

  bool gone() const noexcept { return state == '\0' || state == 'Z' || state == 'X'; }
};

/// Why a call does not end.
enum class Cause : std::uint8_t {
  Dead,        ///< a rank of it is gone that had not left
  Left,        ///< a rank of it has ended its World
  Mismatched,  ///< a rank made another call
  Stopped,     ///< a rank's process is stopped
  Elsewhere,   ///< a rank is in a call of another communicator
  NotCalled,   ///< a rank is in no call: it computes, or never comes
  Unknown,     ///< nothing is known of a rank
  OnItsWay,    ///< all have come: a slow link, or a rank that makes no progress
};

/// "dead", "left", "mismatched", "stopped", "in another call", "not called", "unknown", "on its way".
SINEW_API std::string_view name_of(Cause cause) noexcept;

/// A call that some ranks wait in.
struct StuckCall {
  std::uint16_t communicator = 0;  ///< its id
  std::uint32_t sequence = 0;
  std::string call;          ///< "all_reduce(f32, sum, count 4) at train.cpp:12"
  std::vector<int> waiting;  ///< World ranks
  std::int64_t waited_ms = 0;
  Cause cause = Cause::OnItsWay;
  int blamed = -1;   ///< World rank; -1: none
  std::string text;  ///< the verdict in words
};

/// Where a rank is.
struct RankWhereabouts {
  int rank = -1;
  pid_t process = 0;
  bool gone = false, left = false, stopped = false;
  std::string text;  ///< "in all_reduce(...) at .. for 3.2 s"
};

struct Diagnosis {
  std::vector<RankWhereabouts> ranks;  ///< ascending
  std::vector<StuckCall> stuck;        ///< the first call of each communicator, and messages; the longest first
};

/// Judges a job by its ranks' records alone, as its own ranks do. Of ranks that are gone calls count that ended with an
/// error; one that is gone without having left its World, and without any such call, has died.
/// records: by rank, one for each; now: on the clock of the records; least_ms: what has waited less is not stuck.
/// Texts number ranks as the World does.
SINEW_API Diagnosis diagnose(std::span<const RankRecords> records, std::int64_t now, std::int64_t least_ms);

/// Has ended its World in order.
SINEW_API bool has_left(const RankRecords& of);

/// The latest time that any of them has.
SINEW_API std::int64_t last_moment(std::span<const RankRecords> records) noexcept;

}  // namespace sinew
