#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <sinew/collectives/world/device_allocation.hpp>
#include <sinew/core/base/wire.hpp>
#include <sinew/core/error.hpp>

namespace sinew {
namespace {

/// Who makes memory for a communicator: the same on all its ranks.
struct Maker {
  OffloadMemory* offload = nullptr;  ///< null: the device's runtime
  std::string known_as;
};

Maker maker_for(const CommunicatorState& s) {
  std::string reasons;
  for (const NamedOffload& o : s.offloads) {
    OffloadMemory* memory = o.offload->memory();
    if (memory == nullptr) continue;
    const Availability can = memory->available();
    if (can.ok) return {memory, memory->describe()};
    reasons += fmt::format("; {}: {}", o.transport, can.reason);
  }
  return {nullptr, "plain device memory: no transport here has any other" + reasons};
}

Region plain_memory(const std::shared_ptr<WorldState>& world, std::size_t bytes) {
  const Buffer memory = world->device_runtime->allocate(bytes, {MemoryKind::Device, world->device});
  const auto release = [world, memory](const void*) {
    if (world->is_forked()) return;  // as ~World
    world->locked([&] { world->device_runtime->release(memory); });
  };
  return {memory, std::shared_ptr<const void>(memory.data, release)};
}

/// `obstacle`: why this rank has none; empty: it has.
void require_on_all(const Exchange& exchange, const Group& group, std::size_t bytes, const std::string& obstacle) {
  const std::vector<Bytes> all = exchange.all_gather(WireWriter().value(std::uint64_t{bytes}).text(obstacle).take());
  const auto asked = [&](std::size_t r) { return WireReader(all[r]).value<std::uint64_t>(); };
  for (std::size_t r = 1; r < all.size(); ++r) {
    if (asked(r) == asked(0)) continue;
    throw Error(Code::InvalidArgument,
                fmt::format("allocate: {} asks for {} bytes, {} for {}; expected the same on all ranks",
                            group.rank_text(0), asked(0), group.rank_text(static_cast<int>(r)), asked(r)));
  }
  for (std::size_t r = 0; r < all.size(); ++r) {
    WireReader reader(all[r]);
    reader.value<std::uint64_t>();
    if (const std::string why = reader.text(); !why.empty())
      throw Error(Code::Unavailable,
                  fmt::format("allocate: {} bytes: {}: {}", bytes, group.rank_text(static_cast<int>(r)), why));
  }
}

}  // namespace

Memory allocate_on_device(CommunicatorState& s, std::size_t bytes, const CallOptions& options) {
  const Maker maker = maker_for(s);
  Region region;
  std::string obstacle;
  s.world->locked([&] {
    try {
      if (s.world->device_runtime == nullptr) throw Error(Code::Unavailable, "no device: " + s.world->no_device);
      if (bytes > 0)
        region = maker.offload != nullptr ? maker.offload->allocate(bytes) : plain_memory(s.keeps_world, bytes);
    } catch (const Error& e) {
      obstacle = e.what();
    }
  });
  require_on_all(s.exchange(options), s.group, bytes, obstacle);
  const auto attach = [&](Completion& done) { maker.offload->attach(region, done); };
  if (bytes > 0 && maker.offload != nullptr) s.start_on_offload(bytes, attach, options).get();
  return {std::move(region), maker.known_as};
}

}  // namespace sinew
