#pragma once

#include <cstring>
#include <memory>
#include <optional>

#include <sinew/core/error.hpp>
#include <sinew/core/transport/peer_memory.hpp>

#include "fakes/fake_device.hpp"

namespace sinew::fake {

/// A path to memory of this very process, as if it were another one. Either side can refuse.
class Path final : public PeerMemory {
 public:
  bool can_export = true;
  bool can_map = true;
  int mapped = 0;  ///< mappings that exist now

  std::optional<Exported> export_memory(ConstBuffer memory) override {
    if (!can_export) return std::nullopt;
    const AllocationOf of = allocation_of(memory.data);
    Exported exported;
    std::memcpy(exported.handle.data(), &of.first, sizeof of.first);
    exported.allocation = of.number;
    exported.offset = static_cast<std::uint64_t>(memory.data - of.first);
    return exported;
  }
  Mapping map(const Exported& memory) override {
    if (!can_map) throw Error(Code::System, "fake device: mapping refused");
    std::byte* first = nullptr;
    std::memcpy(&first, memory.handle.data(), sizeof first);
    ++mapped;
    return {first, [this](std::byte*) { --mapped; }};
  }
};

}  // namespace sinew::fake
