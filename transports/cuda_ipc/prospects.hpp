#pragma once

#include <cstdint>
#include <span>
#include <string>

#include <sinew/core/offload.hpp>
#include <sinew/core/transport/device_links.hpp>
#include <sinew/topology/devices/device_group.hpp>

namespace sinew::cuda_ipc {

/// The parts in which a call runs.
struct Shape {
  Blocks blocks;
  std::uint64_t elements = 0;  ///< of a block in a fragment
  std::uint64_t fragments = 1;
  bool two_shot = false;  ///< each rank reduces its part, then takes the others' results
};

/// Tells what the offload can run on these devices, and how long it will take. All devices are on one host.
class IpcProspects final : public OffloadProspects {
 public:
  /// `devices`: by rank of the group. `sharers`: the most processes that use one device.
  IpcProspects(std::span<const DeviceLinks> devices, int sharers);

  std::string_view name() const noexcept override { return "cuda_ipc"; }
  Availability supports(const CollectiveDesc& desc) const override;
  Seconds predict(const CollectiveDesc& desc) const override;
  std::string describe(const CollectiveDesc& desc) const override;
  CostSource source() const noexcept override { return group_.is_assumed ? CostSource::Default : CostSource::Catalog; }

  Shape shape_of(const CollectiveDesc& desc) const;

 private:
  DeviceGroup group_;
  std::uint64_t ranks_ = 1;
  int sharers_ = 1;
};

}  // namespace sinew::cuda_ipc
