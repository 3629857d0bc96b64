#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <sinew/core/error.hpp>
#include <sinew/core/host/cpu.hpp>
#include <sinew/core/offload.hpp>
#include <sinew/transports/shm/offload/geometry.hpp>
#include <sinew/transports/shm/offload/members.hpp>
#include <sinew/transports/shm/offload/pending_call.hpp>

namespace sinew::shm {

/// The parts that one rank gives to each rank, and takes from each rank, in a call of Protocol::Parts.
struct CallParts {
  std::vector<Range> gives;     ///< ranges of `in`, by rank; empty: this rank gives nothing
  std::vector<Range> takes;     ///< ranges of `out`, by rank; empty: this rank takes nothing
  bool swaps = false;           ///< parts that come in overwrite parts that other ranks still read
  std::vector<std::byte> copy;  ///< a copy of `in`, if the rank swaps more than can be staged
  std::uint64_t element_bytes = 1;

  /// The bytes of staging memory for the parts that other ranks read. Each part is staged once, in cache lines of its
  /// own.
  std::uint64_t given_bytes(const PendingCall& call, int rank) const noexcept;
  std::uint64_t end_of_gives() const noexcept;
};

/// The bytes of the whole cache lines that a staged part takes.
constexpr std::uint64_t in_lines(std::uint64_t bytes) noexcept {
  return (bytes + kCacheLine - 1) / kCacheLine * kCacheLine;
}

/// Of a v-form. Cost: allocates for more ranks than ever before, and a copy of `in` for a long exchange in place.
void lay_out(const Call& call, const PendingCall& pending, int rank, int ranks, CallParts& parts);

/// An entry of the table of parts that a rank shows behind its flag line. The table has an entry for each rank. Parts
/// that fit follow the table.
struct PartEntry {
  std::uint64_t place = 0;  ///< an offset in the owner's shared segment, or an address: Places::in_access tells which
  std::uint64_t bytes = 0;
};
inline constexpr std::size_t kMostPartRanks = kLinesBytes / sizeof(PartEntry);

/// Fetches the parts of one call of Protocol::Parts, a bounded number of bytes per step. The owner of a part tells how
/// other ranks reach it (Places::in_access).
class PartReader {
 public:
  explicit PartReader(Members& members) : members_(members) {}

  /// Begins a call. Precondition: all ranks whose parts this rank takes have announced the call.
  void begin(const CallParts& parts);
  /// At most a MiB of the call that was begun: both may have moved since. Returns 1.
  int step(const PendingCall& call, const CallParts& parts) noexcept;
  /// Nothing is read any more: done, or status() says why not.
  bool finished() const noexcept { return fetched_ == members_.count() || !status_.ok(); }
  const Status& status() const noexcept { return status_; }

 private:
  /// The rank whose part is next. This rank begins with its own part and goes on with its right neighbour's, so that no
  /// two ranks read from the same rank at first.
  int next() const noexcept { return (members_.rank() + fetched_) % members_.count(); }
  std::uint64_t fetch(const PendingCall& call, const CallParts& parts, int rank, std::uint64_t most) noexcept;
  Status wrong_length(int rank, std::uint64_t sent, std::uint64_t expected) const;

  Members& members_;
  int fetched_ = 0;         // number of ranks whose parts are complete here
  std::uint64_t done_ = 0;  // bytes of the next part that are here
  Status status_;
};

}  // namespace sinew::shm
