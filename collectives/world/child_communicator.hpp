#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include <sinew/collectives/device_hierarchy/offload.hpp>
#include <sinew/collectives/world/communicator_state.hpp>

namespace sinew {

/// A communicator of some ranks of another one, whose offload makes calls in it.
class ChildCommunicator final : public PartOfGroup {
 public:
  explicit ChildCommunicator(std::shared_ptr<CommunicatorState> state) : state_(std::move(state)) {}

  PendingCall& start(const CollectiveDesc& desc, ConstBuffer in, Buffer out, bool in_place, StreamRef after,
                     std::uint64_t history) override;
  void end(const Status& reason) noexcept override;
  bool set_stream_priority(StreamPriority priority) override;

  /// The bytes that this rank holds for the communicator. Thread: takes the World's lock.
  std::size_t memory_bytes() const;
  /// Closes the communicator. Calls that are started later are refused.
  /// Thread: takes the World's lock.
  void close();

 private:
  std::shared_ptr<CommunicatorState> state_;  // null: it has been closed
};

/// If the ranks have devices on several hosts, adds the offload DeviceHierarchy. If some call would choose it,
/// communicators for its parts are made. Otherwise plans show it as rejected. All ranks call this function, before the
/// first call on device memory.
/// `all`: among the ranks of the communicator.
/// Thread: takes the World's lock. Errors: those of the exchange.
void add_device_hierarchy(CommunicatorState& state, const Exchange& all);

}  // namespace sinew
