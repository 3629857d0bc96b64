#include <fmt/format.h>

#include <sinew/transports/nccl/calls/issue.hpp>
#include <sinew/transports/nccl/library/library.hpp>
#include <sinew/transports/nccl/prospects.hpp>

namespace sinew::nccl {
namespace {

/// The links of the group's devices. Where the Machine did not tell what the devices are, the driver has.
DeviceGroup group_of(std::span<const DeviceLinks> devices, int compute_capability) {
  DeviceGroup group = device_group(devices);
  if (group.compute_capability == 0) group.compute_capability = compute_capability;
  return group;
}

}  // namespace

NcclProspects::NcclProspects(const Abilities& abilities, std::span<const DeviceLinks> devices)
    : abilities_(abilities), model_(group_of(devices, abilities.compute_capability), abilities.version) {}

Availability NcclProspects::supports(const CollectiveDesc& desc) const {
  return can_run(desc, abilities_, model_.group().ranks);
}

Seconds NcclProspects::predict(const CollectiveDesc& desc) const {
  return model_.predict(desc.collective, static_cast<double>(desc.bytes(model_.group().ranks))).seconds;
}

std::string NcclProspects::function(const CollectiveDesc& desc) const {
  return fmt::format("{} of NCCL {}", way_of(desc.collective, abilities_.features), version_text(abilities_.version));
}

std::string NcclProspects::expectation(const CollectiveDesc& desc) const {
  const auto bytes = static_cast<double>(desc.bytes(model_.group().ranks));
  return fmt::format("expected: {}", to_text(model_.predict(desc.collective, bytes)));
}

std::string NcclProspects::describe(const CollectiveDesc& desc) const {
  return fmt::format("{}; {}", function(desc), expectation(desc));
}

CostSource NcclProspects::source() const noexcept {
  return model_.group().is_assumed ? CostSource::Default : CostSource::Catalog;
}

}  // namespace sinew::nccl
