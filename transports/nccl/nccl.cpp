#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include <sinew/core/error.hpp>
#include <sinew/core/fabric.hpp>
#include <sinew/core/module_entry.hpp>
#include <sinew/transports/nccl/offload.hpp>

namespace sinew::nccl {
namespace {

/// No transport: NCCL's messages need both sides in one order, which frames and tags do not give.
class NcclFabric final : public Fabric {
 public:
  NcclFabric(const FabricContext& context, Library library)
      : host_(context.host),
        device_(context.device),
        shared_(std::move(library), *context.device_runtime, context.device, context.config.timeout) {}

  std::span<const std::unique_ptr<Transport>> transports() override { return {}; }
  Availability has_offload() const override { return Availability::yes(); }

  std::unique_ptr<CollectiveOffload> make_offload(const OffloadContext& context) override {
    return offload_of(context,
                      agree(context, shared_.library, shared_.endings, shared_.order.runtime(), device_, refusal_));
  }

  /// By NCCL where it can on all ranks of the parent, else as for any other group.
  std::unique_ptr<CollectiveOffload> split_offload(const SplitContext& split) override {
    auto* parent = static_cast<NcclOffload*>(split.parent);
    const Group& group = split.part.group;
    const SplitAgreement agreed = agree_on_split(split, here(parent));
    const bool member = group.size() > 1;
    if (!agreed.obstacle.empty()) {
      if (!member) return nullptr;
      Agreement by_id = agree(split.part, shared_.library, shared_.endings, shared_.order.runtime(), device_, refusal_);
      by_id.origin += ": " + agreed.obstacle;
      return offload_of(split.part, std::move(by_id));
    }
    const auto birth = member ? std::make_shared<Birth>() : nullptr;
    split.as_call([&](Completion& done) { parent->split(birth, split.color, group.rank, done); });
    if (!member) return nullptr;
    return offload_of(split.part,
                      {.abilities = agreed.abilities, .birth = birth, .origin = "split off by ncclCommSplit"});
  }

 private:
  std::unique_ptr<CollectiveOffload> offload_of(const OffloadContext& context, Agreement agreed) {
    std::vector<DeviceLinks> devices = context.devices;
    if (devices.empty()) {  // nobody knows more than which ranks are on this host
      for (const int r : context.group.world_ranks) devices.push_back({.host = host_.contains(r) ? -1 : r});
    }
    return std::make_unique<NcclOffload>(shared_, context.group, std::move(agreed), devices);
  }

  /// What this rank brings to a split.
  SplitAgreement here(const NcclOffload* parent) {
    SplitAgreement mine{"it has no communicator of NCCL", {}};
    if (parent == nullptr) return mine;
    mine.obstacle = parent->no_split();
    mine.abilities = parent->abilities();
    try {
      mine.abilities.compute_capability = shared_.order.runtime().traits(device_).compute_capability;
    } catch (const Error& e) {
      mine.obstacle = e.what();
    }
    return mine;
  }

  HostPeers& host_;
  const int device_;
  std::string refusal_;  // why this NCCL and this CUDA cannot begin at all
  Shared shared_;
};

class NcclModule final : public Module {
 public:
  std::string_view name() const noexcept override { return "nccl"; }
  /// Which library is asked for is known when a World opens it.
  Availability available() const override { return Availability::yes(); }
  std::unique_ptr<Fabric> open(const FabricContext& context) override {
    if (context.device_runtime == nullptr) throw Error(Code::Unavailable, "no accelerator is visible");
    return std::make_unique<NcclFabric>(context, load_library(context.config.nccl_library));
  }
  std::unique_ptr<OffloadProspects> prospects(std::span<const DeviceLinks> devices) const override {
    Abilities abilities{.version = kPlannedVersion, .compute_capability = kFloat8Capability};
    for (const DeviceLinks& device : devices) {
      if (device.compute_capability > 0)
        abilities.compute_capability = std::min(abilities.compute_capability, device.compute_capability);
    }
    abilities.features = {true, true, true, true, true, true};
    return std::make_unique<NcclProspects>(abilities, devices);
  }
};

Module& module() noexcept {
  static NcclModule m;
  return m;
}

}  // namespace
}  // namespace sinew::nccl

SINEW_MODULE(sinew::nccl::module);
