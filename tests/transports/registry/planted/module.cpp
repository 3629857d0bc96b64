// A module without rails. PLANTED_NAME: what it calls itself; PLANTED_REASON: why it is not available, if it is not;
// PLANTED_THROW: what its open() throws, if anything; PLANTED_EMPTY: it returns nothing. PLANTED_SIGNAL: what it
// handles as soon as it is loaded, if anything.
#include <csignal>
#include <memory>
#include <span>
#include <stdexcept>

#include <sinew/core/module_entry.hpp>

namespace {

#ifdef PLANTED_SIGNAL
[[gnu::constructor]] void meddle() {
  std::signal(PLANTED_SIGNAL, [](int) {});
}
#endif

class PlantedFabric final : public sinew::Fabric {
 public:
  std::span<const std::unique_ptr<sinew::Transport>> transports() override { return {}; }
};

class PlantedModule final : public sinew::Module {
 public:
  std::string_view name() const noexcept override { return PLANTED_NAME; }
  sinew::Availability available() const override {
#ifdef PLANTED_REASON
    return sinew::Availability::no(PLANTED_REASON);
#else
    return sinew::Availability::yes();
#endif
  }
  std::unique_ptr<sinew::Fabric> open(const sinew::FabricContext&) override {
#ifdef PLANTED_THROW
    throw PLANTED_THROW;
#elif defined PLANTED_EMPTY
    return nullptr;
#else
    return std::make_unique<PlantedFabric>();
#endif
  }
};

sinew::Module& module() noexcept {
  static PlantedModule m;
  return m;
}

}  // namespace

SINEW_MODULE(module);
