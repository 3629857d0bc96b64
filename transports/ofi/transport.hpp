#pragma once

#include <map>
#include <memory>
#include <vector>

#include <sinew/transports/ofi/endpoint.hpp>
#include <sinew/transports/ofi/provider/provider.hpp>
#include <sinew/transports/ofi/shared.hpp>

namespace sinew::ofi {

/// A provider's endpoints, one for each rail, and who is reached through them.
class OfiTransport final : public Transport {
 public:
  OfiTransport(const Options& options, Choice choice);
  ~OfiTransport() override;

  std::string_view name() const noexcept override { return "ofi"; }
  const Capabilities& capabilities() const noexcept override { return capabilities_; }
  Address address() const override { return shared_.self.encode(); }
  Reach probe(const Address& peer) override;
  std::unique_ptr<Endpoint> connect(const Address& peer) override;
  /// Provider and domain, and why these.
  const NicChoice& nic_choice() const noexcept { return nic_choice_; }
  const Availability& takes_device_memory() const noexcept { return takes_device_memory_; }

  int progress() noexcept override;
  bool active() const noexcept override { return shared_.pending != 0; }
  int wake_descriptor() const noexcept override { return shared_.rails.wake_descriptor(); }
  bool arm() noexcept override;
  void disarm() noexcept override { shared_.rails.disarm(); }

 private:
  static void frame_came(Request& request, const Outcome& outcome);
  static void frame_left(Request& request, const Outcome& outcome);

  void post_receives();
  void sort_in(const Frame& frame, std::size_t bytes);
  void park(const FrameHeader& header, const std::byte* frame, std::size_t bytes);
  void flush_lanes();
  void end_faulted();
  void watch_ending();
  void say_farewell();

  Shared shared_;
  NicChoice nic_choice_;
  Availability takes_device_memory_;
  Capabilities capabilities_;
  std::vector<Frame*> unposted_;
  std::map<int, std::vector<Bytes>> parked_;  // frames of ranks that this rank has not connected to yet
};

/// As make_transport(), with what only the module asks.
std::unique_ptr<OfiTransport> open_rail(const Options& options);

}  // namespace sinew::ofi
