#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include <sinew/collectives/message.hpp>
#include <sinew/core/call/call_options.hpp>
#include <sinew/core/runtime/call_slab.hpp>
#include <sinew/core/transport/progress_source.hpp>

namespace sinew {

/// Receives from any rank that wait for a message. Each looks at all ranks' messages in turn, and becomes an ordinary
/// receive from the first rank that has sent one.
/// Thread: of the World's engine. Cost: each turn of progress looks into the queues of all ranks.
class AnyReceives final : public ProgressSource {
 public:
  /// Has this rank sent a message with this tag that nobody has taken?
  using Holds = std::function<bool(int rank, std::uint32_t tag)>;
  /// Posts an ordinary receive, which ends `call`.
  using Launch = std::function<void(const Message& message, StreamRef after, PendingCall& call)>;

  /// `descriptor`: readable when messages come; -1: there is none.
  AnyReceives(int ranks, int descriptor, Holds holds, Launch launch)
      : ranks_(ranks), descriptor_(descriptor), holds_(std::move(holds)), launch_(std::move(launch)) {}

  /// `message.peer` is not looked at.
  void add(const Message& message, StreamRef after, PendingCall& call) { waiting_.push_back({message, after, &call}); }
  /// The communicator has ended: those that wait end at the next progress.
  void end(const Status& reason) { end_ = reason; }

  int progress() noexcept override;
  bool active() const noexcept override { return !waiting_.empty(); }
  int wake_descriptor() const noexcept override { return descriptor_; }
  bool arm() noexcept override;
  void disarm() noexcept override {}

 private:
  struct Waiting {
    Message message;
    StreamRef after;
    PendingCall* call;
  };

  /// The rank whose message the receive may take; -1: no rank has sent one.
  int find(const Waiting& receive);

  int ranks_;
  int descriptor_;
  Holds holds_;
  Launch launch_;
  Status end_;
  int first_ = 0;  ///< the rank that is looked at first: each rank in its turn
  std::vector<Waiting> waiting_;
};

}  // namespace sinew
