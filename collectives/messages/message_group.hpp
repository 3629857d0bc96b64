#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include <sinew/collectives/message.hpp>
#include <sinew/core/completion.hpp>
#include <sinew/core/runtime/call_slab.hpp>

namespace sinew {

/// The groups of messages that one communicator has in flight: several sends and receives that end as one call.
/// Thread: of the World's engine. Cost: allocates only while more are in flight than ever before.
class MessageGroups {
 public:
  /// Hands one message to where it goes; `done` fires when it is over. What captures two pointers needs no memory.
  using Post = std::function<void(const Message& message, Completion& done)>;

  /// Posts all messages, and ends `call` when all are over: with the first failure, which ends no other of them.
  /// Until then call.peer is the peer of a message that is not over. What it throws it throws before the first.
  void start(PendingCall& call, std::span<const Message> messages, const Post& post);
  /// false: `call` is no group in flight here.
  bool cancel(const PendingCall& call, const std::function<void(int peer, Completion& part)>& cancel_part);

 private:
  struct Group;
  struct Part : Completion {
    Group* group = nullptr;
    int peer = -1;
    bool over = true;
  };
  struct Group {
    PendingCall* call = nullptr;  // null: idle
    std::deque<Part> parts;       // which never move; the first `used` of them
    std::size_t used = 0;
    std::size_t left = 0;
    std::size_t first_open = 0;
    Status failure;
    int failed_peer = -1;
  };

  Group& take();
  static void fired(Completion& completion) noexcept;

  std::vector<std::unique_ptr<Group>> groups_;
};

}  // namespace sinew
