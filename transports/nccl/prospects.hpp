#pragma once

#include <span>
#include <string>

#include <sinew/core/offload.hpp>
#include <sinew/core/transport/device_links.hpp>
#include <sinew/topology/devices/nccl_model.hpp>
#include <sinew/transports/nccl/calls/abilities.hpp>

namespace sinew::nccl {

/// The version of NCCL that plans for machines of others assume.
inline constexpr int kPlannedVersion = version_code(2, 28, 7);

/// Tells what NCCL can run on these devices, how long that will take, and by which algorithm it will probably run.
class NcclProspects final : public OffloadProspects {
 public:
  /// `devices`: by rank of the group.
  NcclProspects(const Abilities& abilities, std::span<const DeviceLinks> devices);

  std::string_view name() const noexcept override { return "nccl"; }
  Availability supports(const CollectiveDesc& desc) const override;
  Seconds predict(const CollectiveDesc& desc) const override;
  std::string describe(const CollectiveDesc& desc) const override;
  CostSource source() const noexcept override;
  bool needs_progress() const noexcept override { return false; }
  Availability supports_capture() const override { return Availability::yes(); }

  /// "ncclAllReduce of NCCL 2.28.7".
  std::string function(const CollectiveDesc& desc) const;
  /// "expected: NVLS, Simple".
  std::string expectation(const CollectiveDesc& desc) const;

 private:
  Abilities abilities_;
  NcclModel model_;
};

}  // namespace sinew::nccl
