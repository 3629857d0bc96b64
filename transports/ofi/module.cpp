#include <sinew/core/error.hpp>
#include <sinew/core/module_entry.hpp>
#include <sinew/transports/ofi/ofi.hpp>
#include <sinew/transports/ofi/provider/environment.hpp>
#include <sinew/transports/ofi/provider/left_overs.hpp>
#include <sinew/transports/ofi/transport.hpp>

namespace sinew::ofi {
namespace {

/// The choice for device memory if its provider takes that, and can be opened so.
std::unique_ptr<OfiTransport> open_with_device(const Options& options, Choice& choice) {
  Info able = with_device_memory(*choice.info);
  if (!able) {
    choice.device_memory = Availability::no(lacks_device_memory(*choice.info));
    return nullptr;
  }
  try {
    return std::make_unique<OfiTransport>(
        options, Choice{std::move(able), choice.reason, choice.is_nearest, Availability::yes(), {}});
  } catch (const Error& e) {
    choice.device_memory = Availability::no(e.what());
    return nullptr;
  }
}

}  // namespace

std::unique_ptr<OfiTransport> open_rail(const Options& options) {
  if (options.secret.empty()) throw Error(Code::Unavailable, "ofi: the job has no secret to tell its frames by");
  Choice choice = choose_provider(options.config.ofi_provider, options.config.interface, options.nic);
  if (choice.name() == "shm") remove_left_overs();
  if (options.device >= 0) {
    if (auto rail = open_with_device(options, choice)) return rail;
  }
  return std::make_unique<OfiTransport>(options, std::move(choice));
}

namespace {

class OfiFabric final : public Fabric {
 public:
  explicit OfiFabric(const Options& options) {
    auto rail = open_rail(options);
    nic_choice_ = rail->nic_choice();
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

class OfiModule final : public Module {
 public:
  std::string_view name() const noexcept override { return "ofi"; }
  Availability available() const override {
    if (!environment_is_set()) return Availability::no("libfabric's environment cannot be set");
    return Availability::yes();
  }
  std::unique_ptr<Fabric> open(const FabricContext& c) override {
    return std::make_unique<OfiFabric>(
        Options{.rank = c.rank,
                .generation = c.generation,
                .secret = c.secret,
                .host_id = c.host_id,
                .config = c.config,
                .nic = c.nic,
                .device = c.device_runtime != nullptr ? c.device : -1,
                .life_of = [&host = c.host](int rank) { return host.life_of(rank); },
                .sleeps = static_cast<int>(c.host.ranks().size()) > c.host.usable_cores()});
  }
};

}  // namespace

std::unique_ptr<Transport> make_transport(const Options& options) { return open_rail(options); }

Module& module() noexcept {
  static OfiModule m;
  return m;
}

}  // namespace sinew::ofi

SINEW_MODULE(sinew::ofi::module);
