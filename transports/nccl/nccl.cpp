#include <algorithm>
#include <memory>
#include <utility>

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
    const auto& ranks = context.group.world_ranks;
    const bool one_host = std::ranges::all_of(ranks, [this](int r) { return host_.contains(r); });
    Agreement agreed = agree(context, shared_.library, shared_.endings, shared_.order.runtime(), device_);
    return std::make_unique<NcclOffload>(shared_, context.group, std::move(agreed), one_host);
  }

 private:
  HostPeers& host_;
  const int device_;
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
};

Module& module() noexcept {
  static NcclModule m;
  return m;
}

}  // namespace
}  // namespace sinew::nccl

SINEW_MODULE(sinew::nccl::module);
