#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include <sinew/collectives/schedule/chunk_table.hpp>

namespace sinew {

/// What a v-form call has of its own: the caller's spans may be gone before it runs.
struct CallParts {
  std::vector<std::uint64_t> counts;         ///< shared counts: what the description refers to
  std::vector<std::uint64_t> displacements;  ///< of these
  ChunkTable chunks;                         ///< local counts: In and Out of this rank
  bool separate = false;  ///< shared counts: `chunks` say where the parts of the list lie, not the plan
  std::uint32_t users = 0;
};

/// Keeps a call's parts; empty for the other forms.
/// Thread: under the lock of the World, where several threads use it. The count takes no locked instruction: one that
///         follows an announcement in shared memory waits until the announcement has reached the other core.
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
  bool is_last() const noexcept { return parts_->users == 1; }

 private:
  void hold() noexcept {
    if (parts_ != nullptr) change(1);
  }
  /// Returns how many hold the parts now.
  std::uint32_t change(int by) noexcept { return parts_->users += static_cast<std::uint32_t>(by); }

  CallParts* parts_ = nullptr;
};

/// The parts of the calls that one communicator has in flight, used again when these have ended.
/// Cost: allocates only while more calls are in flight, or ranks in a call, than ever before.
class CallPartsPool {
 public:
  CallPartsRef take() {
    for (const CallPartsRef& parts : all_) {
      if (!parts.is_last()) continue;
      parts->separate = false;
      return parts;
    }
    all_.push_back(CallPartsRef(new CallParts));
    return all_.back();
  }

 private:
  std::vector<CallPartsRef> all_;
};

}  // namespace sinew
