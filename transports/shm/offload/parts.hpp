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

/// What one rank gives and takes in a call of Protocol::Parts, by the other's rank.
struct CallParts {
  std::vector<Range> gives;     ///< of `in`; empty: nothing
  std::vector<Range> takes;     ///< of `out`; empty: nothing
  bool swaps = false;           ///< what comes in goes where others still read
  std::vector<std::byte> copy;  ///< of `in`, where it swaps more than can be staged at once
  std::uint64_t element_bytes = 1;

  /// What staging takes that others read, each part once and in lines of its own.
  std::uint64_t given_bytes(const PendingCall& call, int rank) const noexcept;
  std::uint64_t end_of_gives() const noexcept;
};

/// Bytes of the cache lines that a part takes where it is staged.
constexpr std::uint64_t in_lines(std::uint64_t bytes) noexcept {
  return (bytes + kCacheLine - 1) / kCacheLine * kCacheLine;
}

/// Of a v-form. Cost: allocates for more ranks than ever before, and a copy of `in` for a long exchange in place.
void lay_out(const Call& call, const PendingCall& pending, int rank, int ranks, CallParts& parts);

/// What a rank shows of its parts behind the flag line: one entry for each rank, and behind them parts that fit.
struct PartEntry {
  std::uint64_t place = 0;  ///< an offset in its shared segment, or an address: by the access that the flag line names
  std::uint64_t bytes = 0;
};
inline constexpr std::size_t kMostPartRanks = kLinesBytes / sizeof(PartEntry);

/// Fetches the parts of one call of Protocol::Parts, each as its owner lets at it: a bounded number of bytes per step.
class PartReader {
 public:
  explicit PartReader(Members& members) : members_(members) {}

  /// All whose parts this rank takes have announced the call.
  void begin(const CallParts& parts);
  /// At most a MiB of the call that was begun: both may have moved since. Returns 1.
  int step(const PendingCall& call, const CallParts& parts) noexcept;
  /// Nothing is read any more: done, or status() says why not.
  bool finished() const noexcept { return fetched_ == members_.count() || !status_.ok(); }
  const Status& status() const noexcept { return status_; }

 private:
  /// Whose part is next: this rank's own, then its right neighbour's, so that no two begin with the same one.
  int next() const noexcept { return (members_.rank() + fetched_) % members_.count(); }
  std::uint64_t fetch(const PendingCall& call, const CallParts& parts, int rank, std::uint64_t most) noexcept;
  Status wrong_length(int rank, std::uint64_t sent, std::uint64_t expected) const;

  Members& members_;
  int fetched_ = 0;         // ranks whose parts are here
  std::uint64_t done_ = 0;  // bytes of it
  Status status_;
};

}  // namespace sinew::shm
