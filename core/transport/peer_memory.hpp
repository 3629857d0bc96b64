#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include <sinew/core/buffer.hpp>

namespace sinew {

/// A way for this rank's device to read device memory of other processes of its host. A module makes it, see Fabric.
/// Thread:   one thread at a time.
/// Lifetime: mappings outlive the path.
class PeerMemory {
 public:
  /// Tells another process of the host how to find a place in this process's device memory.
  struct Exported {
    std::array<char, 64> handle{};  ///< of the allocation
    std::uint64_t allocation = 0;   ///< a number that differs for allocations of one process
    std::uint64_t offset = 0;       ///< of the place in the allocation, in bytes
  };
  /// The allocation as this process sees it. It stays mapped as long as a copy of the pointer exists.
  using Mapping = std::shared_ptr<std::byte>;

  virtual ~PeerMemory() = default;
  /// Returns nullopt if the memory cannot be given to other processes, as memory of a pool.
  virtual std::optional<Exported> export_memory(ConstBuffer memory) = 0;
  /// Maps the allocation of another process. Cost: calls of the driver at the first call for an allocation. The path
  /// keeps some mappings for later calls.
  /// Errors: Error{System} with the driver's text.
  virtual Mapping map(const Exported& memory) = 0;
};

}  // namespace sinew
