#include <algorithm>
#include <chrono>
#include <thread>

#include <sinew/core/deadline.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/module_entry.hpp>
#include <sinew/transports/cuda/runtime.hpp>
#include <sinew/transports/cuda_ipc/ipc_memory.hpp>
#include <sinew/transports/cuda_ipc/offload.hpp>

namespace sinew::cuda_ipc {
namespace {

constexpr Duration kMostPatience = std::chrono::seconds(2);
constexpr Duration kInFlight = std::chrono::milliseconds(100);  // for reads that a device has begun

/// Collectives on the memory of CUDA devices, between the ranks of one host.
class IpcFabric final : public Fabric {
 public:
  explicit IpcFabric(const FabricContext& c) : host_(c.host), device_(c.device), patience_(c.config.timeout) {
    runtime_ = dynamic_cast<cuda::Runtime*>(c.device_runtime);
    if (runtime_ == nullptr)
      throw Error(Code::Unavailable,
                  c.device_runtime == nullptr ? "this rank has no device" : "the World's device runtime is not CUDA's");
  }
  /// Device memory that others read is there until they have, or, where a rank does not come, until this process ends.
  ~IpcFabric() override {
    const Deadline last = Deadline::after(std::min<Duration>(patience_, kMostPatience));
    const Deadline last_of_failed = Deadline::after(kInFlight);
    for (RetainedMemory& r : retained_) {
      if (!r.scratch) continue;
      const Deadline& until = r.failed ? last_of_failed : last;
      while (!r.board->read_by_all() && !until.passed()) std::this_thread::sleep_for(std::chrono::microseconds(50));
      if (!r.board->read_by_all()) static_cast<void>(r.scratch.release());
    }
  }
  std::span<const std::unique_ptr<Transport>> transports() override { return {}; }
  Availability has_offload() const override { return Availability::yes(); }
  std::unique_ptr<PeerMemory> make_peer_memory() override { return std::make_unique<IpcMemory>(*runtime_, device_); }

  std::unique_ptr<CollectiveOffload> make_offload(const OffloadContext& context) override {
    const auto& ranks = context.group.world_ranks;
    const bool all_here = std::ranges::all_of(ranks, [this](int r) { return host_.contains(r); });
    if (!all_here || ranks.size() > static_cast<std::size_t>(cuda::kMostSources)) return nullptr;
    for (RetainedMemory& r : retained_) {
      if (r.scratch && r.board->all_reached(&Line::left, 1)) r.scratch.reset();
    }
    return std::make_unique<IpcOffload>(host_, *runtime_, device_, context, retained_);
  }

 private:
  HostPeers& host_;
  cuda::Runtime* runtime_;
  int device_;
  Duration patience_;
  std::vector<RetainedMemory> retained_;
};

class IpcModule final : public Module {
 public:
  std::string_view name() const noexcept override { return "cuda_ipc"; }
  Availability available() const override { return cuda::available(); }
  std::unique_ptr<Fabric> open(const FabricContext& c) override { return std::make_unique<IpcFabric>(c); }
  std::unique_ptr<OffloadProspects> prospects(std::span<const DeviceLinks> devices) const override {
    const bool one_host =
        std::ranges::all_of(devices, [&](const DeviceLinks& d) { return d.host == devices.front().host; });
    if (!one_host || devices.size() > static_cast<std::size_t>(cuda::kMostSources)) return nullptr;
    return std::make_unique<IpcProspects>(devices, 1);
  }
};

Module& module() noexcept {
  static IpcModule m;
  return m;
}

}  // namespace
}  // namespace sinew::cuda_ipc

SINEW_MODULE(sinew::cuda_ipc::module);
