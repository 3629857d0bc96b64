#include <sys/mman.h>

#include <algorithm>
#include <memory>

#include <sinew/core/host/cpu.hpp>
#include <sinew/transports/shm/measure.hpp>
#include <sinew/transports/shm/memory/group_states.hpp>
#include <sinew/transports/shm/offload/offload.hpp>
#include <sinew/transports/shm/shm.hpp>
#include <sinew/transports/shm/transport.hpp>

namespace sinew::shm {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;
/// With a rank that does not answer while both measure, and half of the configured timeout where that is less: the
/// others wait meanwhile, and should still hear of it.
constexpr auto kPatience = std::chrono::seconds(30);

class ShmFabric final : public Fabric {
 public:
  explicit ShmFabric(const FabricContext& c)
      : host_(c.host),
        group_states_(c.host.shared_segment()),
        messages_(new ShmTransport(c.host, c.rank, c.generation)),
        patience_(std::min<Duration>(kPatience, c.config.timeout / 2)),
        rail_{std::unique_ptr<Transport>(messages_)} {}

  std::span<const std::unique_ptr<Transport>> transports() override { return rail_; }
  Availability has_offload() const override { return Availability::yes(); }

  std::unique_ptr<CollectiveOffload> make_offload(const OffloadContext& context) override {
    messages_->use(decode_facts(context.facts));
    const bool all_here = std::ranges::all_of(context.group.world_ranks, [this](int r) { return host_.contains(r); });
    if (!all_here) return nullptr;
    return std::make_unique<ShmOffload>(host_, group_states_, context);
  }

  std::optional<Bytes> measure(const OffloadContext& pair, Duration budget) override {
    const std::optional<Facts> found = shm::measure(host_, group_states_, *messages_, pair, budget, patience_);
    return found ? std::optional(encode(*found)) : std::nullopt;
  }
  bool accepts(const Bytes& facts) const override { return are_facts(facts); }
  std::string doubt_in(const Bytes& facts) const override { return shm::doubt_in(decode_facts(facts)); }

  std::optional<Region> allocate(std::size_t bytes, bool huge) override {
    const std::shared_ptr<SharedSegment> segment = host_.shared_segment_owner();
    const std::size_t alignment = huge ? kHugePage : page_bytes();
    const bool fits = bytes <= segment->address_space_bytes();  // else rounding up may overflow; allocate() throws
    const std::size_t whole = fits ? (bytes + alignment - 1) / alignment * alignment : bytes;
    std::byte* memory = segment->allocate(whole, alignment);
    if (huge) (void)madvise(memory, whole, MADV_HUGEPAGE);  // a wish
    Region region;
    region.memory = {memory, bytes, {}};
    region.hold = std::shared_ptr<const void>(memory, [segment, memory](const void*) { segment->release(memory); });
    return region;
  }

 private:
  HostPeers& host_;
  GroupStates group_states_;
  ShmTransport* messages_;
  Duration patience_;
  std::unique_ptr<Transport> rail_[1];
};

class ShmModule final : public Module {
 public:
  std::string_view name() const noexcept override { return "shm"; }
  Availability available() const override { return Availability::yes(); }
  std::unique_ptr<Fabric> open(const FabricContext& context) override { return std::make_unique<ShmFabric>(context); }
};

}  // namespace

std::unique_ptr<Transport> make_transport(HostPeers& host, int rank, std::uint8_t generation) {
  return std::make_unique<ShmTransport>(host, rank, generation);
}

Module& module() {
  static ShmModule m;
  return m;
}

}  // namespace sinew::shm
