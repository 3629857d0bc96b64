#pragma once

#include <cstdint>
#include <memory>

#include <sinew/core/host/host_peers.hpp>
#include <sinew/transports/shm/messages/endpoint.hpp>
#include <sinew/transports/shm/offload/facts.hpp>

namespace sinew::shm {

/// Carries messages between ranks of one host. Its Port stays allocated as long as the shared segment exists, since
/// peers may still read the Port.
class ShmTransport final : public Transport {
 public:
  /// Errors: Error{System} when the shared segment is full.
  ShmTransport(HostPeers& host, int rank, std::uint8_t generation);

  /// What has been measured on this host; until then the defaults. Thread: any.
  void use(const Facts& facts) noexcept;

  std::uint8_t generation() const noexcept { return hub_.generation; }
  /// The endpoint that connect() has made to a rank of the World. Null: there is none, or none any more.
  Endpoint* endpoint_to(int peer) noexcept;

  std::string_view name() const noexcept override { return "shm"; }
  const Capabilities& capabilities() const noexcept override;
  Address address() const override;
  Reach probe(const Address& peer) override;
  std::unique_ptr<Endpoint> connect(const Address& peer) override;

  int progress() noexcept override;
  bool active() const noexcept override;
  int wake_descriptor() const noexcept override { return hub_.host.wake_descriptor(); }
  bool arm() noexcept override;
  void disarm() noexcept override { hub_.host.disarm(); }

 private:
  Hub hub_;
};

}  // namespace sinew::shm
