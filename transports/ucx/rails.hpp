#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <sinew/core/system/file_descriptor.hpp>
#include <sinew/transports/ucx/context.hpp>
#include <sinew/transports/ucx/peer_address.hpp>

namespace sinew::ucx {

/// Contexts of UCX over TCP, one for each of several networks. UCX 1.13 pairs the devices of two hosts without regard
/// to their networks. All its lanes between two hosts with two NICs went over one of them. A context here knows one
/// device. It carries data of long messages only. Everything else goes over the Context that knows all devices.
class Rails {
 public:
  /// None, unless there are two devices at least whose links say the same speed, and no RDMA device. None either where
  /// the user has chosen with UCX_TLS or UCX_NET_DEVICES. A device that UCX does not take is left out.
  explicit Rails(int ranks);

  std::size_t count() const noexcept { return all_.size(); }
  ucp_worker_h worker(std::size_t rail) const noexcept { return all_[rail]->worker(); }
  /// The addresses of the rails, for peers.
  const std::vector<RailAddress>& addresses() const noexcept { return addresses_; }

  unsigned progress() noexcept;
  /// A descriptor that becomes readable where that of `first` does, or a rail's.
  int wake_descriptor(const Context& first) const noexcept { return sleep_ ? sleep_.get() : first.wake_descriptor(); }
  /// As ucp_worker_arm, of all of them.
  bool arm() noexcept;
  /// Once, before wake_descriptor: where there are rails.
  void sleep_beside(const Context& first);

 private:
  std::vector<std::unique_ptr<Context>> all_;
  std::vector<RailAddress> addresses_;
  FileDescriptor sleep_;
};

}  // namespace sinew::ucx
