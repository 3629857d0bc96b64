#include <memory>
#include <span>
#include <utility>

#include <sinew/core/module_entry.hpp>
#include <sinew/transports/ucx/left_overs.hpp>
#include <sinew/transports/ucx/transport.hpp>
#include <sinew/transports/ucx/ucx.hpp>

namespace sinew::ucx {
namespace {

class UcxFabric final : public Fabric {
 public:
  explicit UcxFabric(const Options& options) {
    auto rail = std::make_unique<UcxTransport>(options);
    takes_device_memory_ = rail->takes_device_memory();
    rail_[0] = std::move(rail);
  }
  std::span<const std::unique_ptr<Transport>> transports() override { return rail_; }
  Availability takes_device_memory() const override { return takes_device_memory_; }

 private:
  std::unique_ptr<Transport> rail_[1];
  Availability takes_device_memory_;
};

class UcxModule final : public Module {
 public:
  std::string_view name() const noexcept override { return "ucx"; }
  Availability available() const override { return Availability::yes(); }
  std::unique_ptr<Fabric> open(const FabricContext& c) override {
    remove_left_overs(segment_folder());
    return std::make_unique<UcxFabric>(Options{.rank = c.rank,
                                               .size = c.size,
                                               .generation = c.generation,
                                               .host_id = c.host_id,
                                               .host = &c.host,
                                               .has_device = c.device_runtime != nullptr && c.device >= 0});
  }
};

}  // namespace

Module& module() noexcept {
  static UcxModule m;
  return m;
}

}  // namespace sinew::ucx

SINEW_MODULE(sinew::ucx::module);
