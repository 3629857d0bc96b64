#pragma once

#include <sinew/core/transport.hpp>
#include <sinew/transports/ofi/shared.hpp>

namespace sinew::ofi {

/// Remote memory by the provider's RMA. What a put wrote is in the peer's memory when it is done.
class RemoteMemory final : public OneSided {
 public:
  explicit RemoteMemory(Shared& shared) noexcept : shared_(shared) {}

  /// Errors: Error{Unavailable} with libfabric's text.
  Region register_memory(Buffer memory);

  void get(Endpoint& peer, const RemoteKey& from, std::size_t offset, Buffer to, Completion& done) override;
  void put(Endpoint& peer, ConstBuffer from, const RemoteKey& to, std::size_t offset, Completion& done) override;
  const std::byte* map(const RemoteKey& /*key*/) override { return nullptr; }

 private:
  void access(Way way, Endpoint& peer, const RemoteKey& key, std::size_t offset, Buffer local, Completion& done);

  Shared& shared_;
};

}  // namespace sinew::ofi
