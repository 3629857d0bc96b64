#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include <sinew/core/buffer.hpp>
#include <sinew/core/operation.hpp>
#include <sinew/transports/ofi/frame.hpp>
#include <sinew/transports/ofi/frame_pool.hpp>
#include <sinew/transports/ofi/rail.hpp>

namespace sinew::ofi {

class Lane;

/// What the lanes of one transport share.
struct Lanes {
  Rail& rail;
  FramePool& frames;
  FinishedOperations& finished;
  std::vector<Lane*> stalled;  ///< the provider takes no more of theirs now
};

/// Frames to one peer, in order: posted at once, or kept until the provider takes them (it refuses while it connects).
/// What was posted needs no memory of anybody else. Outlives its endpoint: last words leave behind its end.
class Lane {
 public:
  Lane(Lanes& lanes, fi_addr_t to, std::int32_t own_rank, std::uint64_t key) noexcept
      : lanes_(lanes), to_(to), own_rank_(own_rank), key_(key) {}

  /// `done`: the eager message whose payload this is; it finishes when the provider has a copy.
  void push(FrameHeader header, ConstBuffer payload = {}, Completion* done = nullptr);
  /// false: some of it still waits.
  bool flush();
  bool waiting() const noexcept { return !waiting_.empty(); }
  /// true: the eager message waited here, and was never sent.
  bool take_back(Completion& eager);
  /// Eager messages that wait are given to visit(completion); `and_control`: what else waits is forgotten, too.
  template <class Visit>
  void drop(bool and_control, Visit visit) {
    for (const Waiting& w : waiting_) {
      if (w.done != nullptr) visit(*w.done);
    }
    std::erase_if(waiting_, [and_control](const Waiting& w) { return and_control || w.done != nullptr; });
  }
  fi_addr_t address() const noexcept { return to_; }
  /// libfabric's text, once it has refused a frame for good.
  const std::string& failure() const noexcept { return failure_; }

 private:
  struct Waiting {
    FrameHeader header;
    ConstBuffer payload;
    Completion* done = nullptr;
  };

  /// false: not now.
  bool post(const Waiting& w);

  Lanes& lanes_;
  fi_addr_t to_;
  std::int32_t own_rank_;
  std::uint64_t key_;
  std::uint32_t sequence_ = 0;
  std::deque<Waiting> waiting_;
  std::string failure_;
};

}  // namespace sinew::ofi
