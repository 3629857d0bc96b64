#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <sinew/core/call/collective.hpp>

namespace sinew {

// One rank's log of calls, as SINEW_TRACE=DIR keeps it in DIR/sinew-GENERATION-rank-RANK.calls: a header, then cells of
// one cache line in the order in which they were begun. Plain words of the machine's byte order, one writer; each kind
// is written last, so a rank that is killed leaves whole cells, and one call at most in its first half. A cell of zeros
// is none.

struct LogHeader {
  static constexpr std::uint64_t kMagic = 0x31'73'6c'6c'61'63'73'73;  // "sscalls1"

  std::atomic<std::uint64_t> magic;
  std::int32_t rank;
  std::int32_t ranks;  ///< of the World
  std::int32_t process;
  std::uint32_t generation;
  std::uint64_t job;                    ///< one number per World, equal on all of its ranks
  std::int64_t opened;                  ///< ns of this rank's CLOCK_MONOTONIC, like all times but the next
  std::int64_t opened_realtime;         ///< ns of CLOCK_REALTIME, the time of day
  std::int64_t ahead;                   ///< ns by which this rank's clock is ahead of rank 0's
  std::int64_t ahead_error;             ///< the largest error of `ahead`, in ns; below 0: unknown
  std::atomic<std::int64_t> closed;     ///< when the World ended in order; 0: it did not
  std::atomic<std::uint64_t> lost;      ///< calls that the log does not have, since it could not grow
  std::atomic<std::int32_t> truncated;  ///< errno if the log could not grow; 0: it is complete
  std::int32_t unused;
  char host[128];   ///< its name; filled up with zeros
  char clock[128];  ///< clock_identity()
  std::byte rest[168];
};
static_assert(sizeof(LogHeader) == 512 && std::atomic<std::int64_t>::is_always_lock_free);

enum class CellKind : std::uint32_t {
  None,
  Call,
  Site,          ///< text: "file:line"
  Plan,          ///< PlanCell, then "algorithm", a 0 byte, "transport"
  Communicator,  ///< CommunicatorCell, then the World ranks of its members as 32-bit integers
};

/// A call. The second half says how it ended, `completed` last.
struct CallCell {
  std::atomic<CellKind> kind;
  std::uint32_t communicator;  ///< number of its definition
  Fingerprint fingerprint;
  std::uint64_t extent;  ///< extent_of() its description; of messages bytes
  std::int64_t entered;
  std::uint32_t sequence;  ///< of the collective; of the last one for messages
  std::int32_t peer;       ///< of messages, in the communicator; -1: none
  std::uint32_t site;      ///< number of its definition; 0: unknown
  std::uint32_t plan;      ///< of its; 0: none
  std::uint32_t outcome;   ///< Code
  std::uint32_t in_place;  ///< 1: it is
  std::atomic<std::int64_t> completed;
};
static_assert(sizeof(CallCell) == 64);

/// A part of what a number stands for; parts come in order, with cells of others between.
struct DefinitionCell {
  static constexpr std::size_t kPart = 48;

  std::atomic<CellKind> kind;
  std::uint32_t number;  ///< from 1, of its kind
  std::uint32_t part;    ///< from 0
  std::uint32_t bytes;   ///< of the whole
  std::byte data[kPart];
};
static_assert(sizeof(DefinitionCell) == sizeof(CallCell));

struct PlanCell {
  std::uint64_t bytes;  ///< CollectiveDesc::bytes()
  double predicted_s;
};

struct CommunicatorCell {
  std::uint64_t identity;  ///< equal on all its ranks
  std::uint32_t id;        ///< in tags, for people
  std::uint32_t rank;      ///< the log's own in it
};

}  // namespace sinew
