#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/runtime/call_record.hpp>
#include <sinew/core/transport.hpp>

namespace sinew {

/// One call of one rank, told to another. Ages instead of times: hosts have clocks of their own.
struct CallReport {
  Fingerprint fingerprint = 0;
  std::uint64_t history = 0;  ///< 0: not known
  std::uint64_t communicator = 0;
  std::uint32_t sequence = 0;
  std::int32_t peer = -1;  ///< World rank of a message's peer; -1 for collectives
  bool completed = false;
  Code outcome = Code::Ok;  ///< once completed
  std::int64_t age_ms = 0;  ///< since it was completed, else since it was entered
  std::string site;
  std::string on;  ///< the call's communicator, as Group::text() shows it
};

/// What a rank asks about the others: how far are you in this communicator, and did you make my calls?
struct SINEW_API Question {
  struct Call {
    std::uint32_t sequence = 0;
    Fingerprint fingerprint = 0;
  };
  std::int32_t asker = -1;  ///< World rank
  std::uint64_t communicator = 0;
  std::uint32_t sequence = 0;
  std::vector<std::int32_t> ranks;  ///< World ranks asked about
  std::vector<Call> recent;         ///< the asker's last calls there, ascending, up to `sequence`

  Bytes encode() const;
  /// Errors: Error{Mismatch} where the bytes are no question.
  static Question decode(std::span<const std::byte> bytes);
};

/// What one rank's records say to a question.
struct SINEW_API RankReport {
  std::int32_t rank = -1;                     ///< World rank
  bool left = false;                          ///< ended its World in order
  char state = '\0';                          ///< of its process, as in /proc; T: stopped
  std::optional<CallReport> call;             ///< of the sequence asked about
  std::optional<CallReport> differing;        ///< the first call that is not the asker's
  std::optional<CallReport> latest;           ///< on this communicator
  std::optional<CallReport> latest_anywhere;  ///< of all
  /// World ranks, ascending, of the peers of this rank's messages that are open or have just timed out.
  std::vector<std::int32_t> open_peers;

  /// With the communicator and sequence of the question.
  static Bytes encode(const Question& about, std::span<const RankReport> reports);
  /// Errors: Error{Mismatch} where the bytes are no reports.
  static std::vector<RankReport> decode(std::span<const std::byte> bytes, Question& about);
};

/// A rank that destroyed its communicator writes this as the fingerprint of the call after its last. Its outcome: what
/// had ended the communicator by then, or somebody else in the World; Ok where all was well.
inline constexpr Fingerprint kClosedFingerprint = ~Fingerprint{0};

/// The question of a rank with these records.
SINEW_API Question ask_about(const RecordPage* mine, int asker, std::uint64_t communicator, std::uint32_t sequence,
                             std::vector<std::int32_t> ranks);
/// The answer of a rank with these records. Reads them while they are written. now: what ages are counted to.
SINEW_API RankReport report_on(const RecordPage* page, int rank, pid_t process, bool left, const Question& question,
                               std::int64_t now = coarse_now());
/// A call of one's own for the same purpose; nothing where the ring has moved on.
SINEW_API std::optional<CallReport> report_call(const RecordPage* page, std::uint64_t communicator,
                                                std::uint32_t sequence, std::int64_t now = coarse_now());
/// A call out of somebody's records, told.
SINEW_API CallReport tell(const RecordReader& reader, const CallSeen& seen, std::int64_t now);

/// Communicators on which two ranks' calls so far cannot have been the same, as far as both rings remember.
SINEW_API std::vector<std::uint64_t> communicators_that_differ(const RecordPage* a, const RecordPage* b);

}  // namespace sinew
