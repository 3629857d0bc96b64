// The transport "faulty": another one, whose messages meet the faults that SINEW_FAULTS names, behind its name.
// SINEW_TRANSPORT_PATH=FOLDER SINEW_TRANSPORTS=faulty SINEW_FAULTS=tcp,drop@3
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/conformance/fault_injector.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/module_entry.hpp>
#include <sinew/transports/registry.hpp>

namespace sinew::test {
namespace {

class FaultyFabric final : public Fabric {
 public:
  FaultyFabric(std::unique_ptr<Fabric> inner, const std::vector<Fault>& faults, int rank) : inner_(std::move(inner)) {
    for (const auto& rail : inner_->transports())
      rails_.push_back(std::make_unique<FaultInjector>(*rail, faults, rank));
  }
  std::span<const std::unique_ptr<Transport>> transports() override { return rails_; }
  NicChoice nic_choice() const override { return inner_->nic_choice(); }
  Availability takes_device_memory() const override { return inner_->takes_device_memory(); }
  std::optional<Region> allocate(std::size_t bytes, bool huge) override { return inner_->allocate(bytes, huge); }

 private:
  std::unique_ptr<Fabric> inner_;
  std::vector<std::unique_ptr<Transport>> rails_;
};

class FaultyModule final : public Module {
 public:
  std::string_view name() const noexcept override { return "faulty"; }
  Availability available() const override { return Availability::yes(); }
  std::unique_ptr<Fabric> open(const FabricContext& context) override {
    const std::string_view asked = context.config.faults;
    const std::size_t comma = asked.find(',');
    const std::string_view transport = asked.substr(0, comma);
    const std::string_view rules = comma == std::string_view::npos ? std::string_view() : asked.substr(comma + 1);
    Module* inner = asked.empty() || transport == name() ? nullptr : find_module(transport, context.config);
    if (inner == nullptr || rules.empty()) {
      throw Error(Code::Unavailable,
                  fmt::format("SINEW_FAULTS='{}': expected another transport ({}), then faults: tcp,drop@3", asked,
                              fmt::join(module_names(context.config), ", ")));
    }
    if (const Availability can = inner->available(); !can.ok) throw Error(Code::Unavailable, can.reason);
    const std::vector<Fault> faults = parse_faults(rules);
    return std::make_unique<FaultyFabric>(inner->open(context), faults, context.rank);
  }
};

Module& module() noexcept {
  static FaultyModule m;
  return m;
}

}  // namespace
}  // namespace sinew::test

SINEW_MODULE(sinew::test::module);
