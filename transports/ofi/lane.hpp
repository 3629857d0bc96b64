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
  /// What is known of the peer, and what every frame to it says.
  struct Ends {
    fi_addr_t to = FI_ADDR_UNSPEC;
    int peer_rank = -1;
    int life = -1;  ///< see has_ended
    std::int32_t own_rank = -1;
    std::uint64_t key = 0;
  };

  Lane(Lanes& lanes, const Ends& ends) noexcept : lanes_(lanes), ends_(ends) {}

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
  /// Nothing is posted any more: the provider has forgotten the peer's address.
  void cut_off() { failure_ = "its connection was cut off"; }
  const Ends& ends() const noexcept { return ends_; }
  /// Why frames to this peer can no more be sent; empty: they can.
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
  const Ends ends_;
  std::uint32_t sequence_ = 0;
  std::deque<Waiting> waiting_;
  std::string failure_;
};

}  // namespace sinew::ofi
