#pragma once

#include <atomic>
#include <cstdint>
#include <utility>
#include <vector>

#include <sinew/collectives/chunk_table.hpp>

namespace sinew {

/// What a v-form call has of its own: the caller's spans may be gone before it runs.
struct CallParts {
  std::vector<std::uint64_t> counts;         ///< shared counts: what the description refers to
  std::vector<std::uint64_t> displacements;  ///< of these
  ChunkTable chunks;                         ///< local counts: In and Out of this rank
  std::atomic<std::uint32_t> users{0};
  bool shared = false;  ///< two threads hold copies
};

/// Keeps a call's parts; empty for the other forms.
/// Thread: shared parts may be held by two threads, the one that makes calls and the one that runs them.
///         Elsewhere nothing is locked: a locked instruction behind an announcement waits until that has reached the
///         other core.
class CallPartsRef {
 public:
  CallPartsRef() noexcept = default;
  explicit CallPartsRef(CallParts* parts) noexcept : parts_(parts) { hold(); }
  CallPartsRef(const CallPartsRef& other) noexcept : parts_(other.parts_) { hold(); }
  CallPartsRef(CallPartsRef&& other) noexcept : parts_(std::exchange(other.parts_, nullptr)) {}
  CallPartsRef& operator=(CallPartsRef other) noexcept {
    std::swap(parts_, other.parts_);
    return *this;
  }
  ~CallPartsRef() {
    if (parts_ != nullptr && change(-1) == 0) delete parts_;
  }

  explicit operator bool() const noexcept { return parts_ != nullptr; }
  CallParts& operator*() const noexcept { return *parts_; }
  CallParts* operator->() const noexcept { return parts_; }
  bool is_last() const noexcept { return parts_->users.load(std::memory_order_acquire) == 1; }

 private:
  void hold() noexcept {
    if (parts_ != nullptr) change(1);
  }
  /// Returns how many hold the parts now.
  std::uint32_t change(int by) noexcept {
    const auto step = static_cast<std::uint32_t>(by);
    if (parts_->shared) return parts_->users.fetch_add(step, std::memory_order_acq_rel) + step;
    const std::uint32_t now = parts_->users.load(std::memory_order_relaxed) + step;
    parts_->users.store(now, std::memory_order_relaxed);
    return now;
  }

  CallParts* parts_ = nullptr;
};

/// The parts of the calls that one communicator has in flight, used again when these have ended.
/// Cost: allocates only while more calls are in flight, or ranks in a call, than ever before.
class CallPartsPool {
 public:
  /// `shared`: as in CallParts.
  explicit CallPartsPool(bool shared) noexcept : shared_(shared) {}

  CallPartsRef take() {
    for (const CallPartsRef& parts : all_) {
      if (parts.is_last()) return parts;
    }
    auto* parts = new CallParts;
    parts->shared = shared_;
    all_.push_back(CallPartsRef(parts));
    return all_.back();
  }

 private:
  bool shared_;
  std::vector<CallPartsRef> all_;
};

}  // namespace sinew
