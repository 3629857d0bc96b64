#pragma once

#include <cstdint>

#include <sinew/core/transport.hpp>
#include <sinew/transports/ucx/shared.hpp>

namespace sinew::ucx {

/// Memory that peers of this transport may read and write. A put is done when the bytes are in the peer's memory.
/// Without RDMA the peer's UCX takes part: it must make progress now and then.
class UcxOneSided final : public OneSided {
 public:
  explicit UcxOneSided(Shared& shared) : shared_(shared) {}

  Region register_memory(Buffer memory);
  void get(Endpoint& peer, const RemoteKey& from, std::size_t offset, Buffer to, Completion& done) override;
  void put(Endpoint& peer, ConstBuffer from, const RemoteKey& to, std::size_t offset, Completion& done) override;
  /// Lifetime: of the transport.
  const std::byte* map(const RemoteKey& key) override;

 private:
  Shared& shared_;
};

}  // namespace sinew::ucx
