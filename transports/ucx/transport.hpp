#pragma once

#include <deque>
#include <memory>
#include <vector>

#include <sinew/transports/ucx/endpoint.hpp>
#include <sinew/transports/ucx/shared.hpp>

namespace sinew::ucx {

/// The rail: a worker of UCX, and the endpoints that share it.
class UcxTransport final : public Transport {
 public:
  explicit UcxTransport(const Options& options);
  ~UcxTransport() override;

  std::string_view name() const noexcept override { return "ucx"; }
  const Capabilities& capabilities() const noexcept override { return capabilities_; }
  Address address() const override { return shared_.self.encode(); }
  Reach probe(const Address& peer) override;
  std::unique_ptr<Endpoint> connect(const Address& peer) override;

  int progress() noexcept override;
  /// yes, or why messages of device memory go through the host.
  const Availability& takes_device_memory() const noexcept { return takes_device_memory_; }
  bool active() const noexcept override { return shared_.pending != 0; }
  int wake_descriptor() const noexcept override { return shared_.rails.wake_descriptor(shared_.ucx); }
  bool arm() noexcept override;
  void disarm() noexcept override {}

 private:
  static ucs_status_t on_frame(void* arrivals, const void* header, std::size_t header_bytes, void* payload,
                               std::size_t bytes, const ucp_am_recv_param_t* how);
  static ucs_status_t on_data(void* arrivals, const void* header, std::size_t header_bytes, void* data,
                              std::size_t bytes, const ucp_am_recv_param_t* how);

  /// The argument of the callbacks for messages of one worker.
  struct Arrivals {
    UcxTransport* transport;
    ucp_worker_h worker;
  };

  void handle(ucp_worker_h worker, unsigned id, ucp_am_recv_callback_t callback);
  std::vector<Link*> open_rails(const PeerAddress& peer);
  int end_broken();
  Link& open_link(const PeerAddress& peer, bool watch_peer);

  std::deque<Arrivals> arrivals_;
  Shared shared_;
  Capabilities capabilities_;
  Availability takes_device_memory_;
};

}  // namespace sinew::ucx
