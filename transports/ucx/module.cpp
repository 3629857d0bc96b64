#include <cstdlib>
#include <memory>
#include <span>
#include <utility>

#include <fmt/format.h>

#include <sinew/core/module_entry.hpp>
#include <sinew/transports/ucx/stale_segments.hpp>
#include <sinew/transports/ucx/transport.hpp>
#include <sinew/transports/ucx/ucx.hpp>

namespace sinew::ucx {
namespace {

/// UCX puts devices in order itself: those of RDMA near the process's cores first (UCX_IB_PREFER_NEAREST_DEVICE), and
/// for long messages several side by side (UCX_MAX_RNDV_RAILS). To name it one in UCX_NET_DEVICES would take the others
/// away, so the nearest NIC is not imposed on it. It orders no devices of TCP.
NicChoice order_of_ucx(const NicName& nic) {
  for (const char* name : {"UCX_NET_DEVICES", "UCX_TLS"}) {
    if (const char* chosen = std::getenv(name)) return {.text = fmt::format("{}={}", name, chosen)};
  }
  if (nic.rdma_device.empty()) return {};
  return {.text = "the RDMA devices that UCX finds nearest to this process", .is_nearest = true};
}

class UcxFabric final : public Fabric {
 public:
  UcxFabric(const Options& options, const NicName& nic) : nic_choice_(order_of_ucx(nic)) {
    auto rail = std::make_unique<UcxTransport>(options);
    takes_device_memory_ = rail->takes_device_memory();
    rail_[0] = std::move(rail);
  }
  std::span<const std::unique_ptr<Transport>> transports() override { return rail_; }
  NicChoice nic_choice() const override { return nic_choice_; }
  Availability takes_device_memory() const override { return takes_device_memory_; }

 private:
  std::unique_ptr<Transport> rail_[1];
  NicChoice nic_choice_;
  Availability takes_device_memory_;
};

class UcxModule final : public Module {
 public:
  std::string_view name() const noexcept override { return "ucx"; }
  Availability available() const override { return Availability::yes(); }
  std::unique_ptr<Fabric> open(const FabricContext& c) override {
    remove_stale_segments(segment_folder());
    return std::make_unique<UcxFabric>(Options{.rank = c.rank,
                                               .size = c.size,
                                               .generation = c.generation,
                                               .host_id = c.host_id,
                                               .host = &c.host,
                                               .has_device = c.device_runtime != nullptr && c.device >= 0},
                                       c.nic);
  }
};

}  // namespace

Module& module() noexcept {
  static UcxModule m;
  return m;
}

}  // namespace sinew::ucx

SINEW_MODULE(sinew::ucx::module);
