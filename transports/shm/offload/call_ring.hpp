#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <sinew/transports/shm/offload/parts.hpp>
#include <sinew/transports/shm/offload/pending_call.hpp>

namespace sinew::shm {

/// The calls of one rank in one group that are launched and not done, by their sequence numbers.
class CallRing {
 public:
  std::uint64_t oldest = 1;     ///< that is not done
  std::uint64_t announced = 1;  ///< next to be announced
  std::uint64_t next = 1;       ///< next to be launched

  bool empty() const noexcept { return oldest == next; }
  PendingCall& at(std::uint64_t sequence) noexcept { return calls_[sequence & (calls_.size() - 1)]; }
  const PendingCall& at(std::uint64_t sequence) const noexcept { return calls_[sequence & (calls_.size() - 1)]; }
  /// The parts that a call of Protocol::Parts gives and takes.
  CallParts& parts_of(const PendingCall& call) noexcept { return parts_[call.sequence & (parts_.size() - 1)]; }
  /// Room for the next call. Its sequence number is set. The call is in the ring after launched().
  /// Cost: doubles the ring if that is full.
  PendingCall& prepare() {
    if (next - oldest == calls_.size()) grow();
    PendingCall& call = at(next);
    call.sequence = next;
    return call;
  }
  /// Adds the call of prepare() to the ring.
  void launched() noexcept { ++next; }
  std::size_t memory_bytes() const noexcept { return calls_.capacity() * sizeof(PendingCall); }

 private:
  void grow() {
    std::vector<PendingCall> larger(calls_.size() * 2);
    std::vector<CallParts> more(larger.size());
    for (std::uint64_t s = oldest; s != next; ++s) {
      more[s & (larger.size() - 1)] = std::move(parts_of(at(s)));
      larger[s & (larger.size() - 1)] = at(s);
    }
    calls_ = std::move(larger);
    parts_ = std::move(more);
  }

  std::vector<PendingCall> calls_ = std::vector<PendingCall>(16);  // a power of two
  std::vector<CallParts> parts_ = std::vector<CallParts>(16);      // of the calls, at the same indices
};

}  // namespace sinew::shm
