#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <sinew/collectives/device_hierarchy/hosts_of_group.hpp>
#include <sinew/collectives/device_hierarchy/program.hpp>
#include <sinew/collectives/selection/facts.hpp>
#include <sinew/collectives/selection/option.hpp>
#include <sinew/collectives/selection/selector.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/core/offload.hpp>

namespace sinew {

/// Tells what hierarchical calls on device memory can do in a group whose ranks are on several hosts, and how long they
/// will take. All answers follow from Facts, so all ranks give the same ones.
/// Cost: an answer makes a selection for each kind of step of the call.
class SINEW_API HierarchyProspects final : public OffloadProspects {
 public:
  /// `facts` outlives this object. `world_ranks`: the group. `on_first_host`: prospects of the offloads that the ranks
  /// of its first host would have. They stand for all hosts, since hosts must be alike.
  HierarchyProspects(const Facts& facts, const std::vector<int>& world_ranks, std::vector<NamedOffload> on_first_host);

  std::string_view name() const noexcept override { return kDeviceHierarchy; }
  Availability supports(const CollectiveDesc& desc) const override;
  Seconds predict(const CollectiveDesc& desc) const override;
  std::string describe(const CollectiveDesc& desc) const override;
  CostSource source() const noexcept override { return source_; }

  const HostsOfGroup& hosts() const noexcept { return hosts_; }
  /// Rejects all calls from now on, with this reason or an earlier one.
  void leave_out(std::string why) {
    if (left_out_.empty()) left_out_ = std::move(why);
  }

 private:
  /// Selects for one step. A step between hosts is taken for one of `sharing` times its bytes, because ranks share
  /// NICs.
  Selection select(const HierarchyStep& step, double sharing) const;

  HostsOfGroup hosts_;
  std::vector<NamedOffload> offloads_;
  Selector on_host_;
  Selector on_rail_;
  std::string left_out_;  // empty: calls are supported
  CostSource source_ = CostSource::Default;
};

}  // namespace sinew
