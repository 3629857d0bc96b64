#pragma once

#include <cstddef>
#include <string>

#include <sinew/collectives/memory.hpp>
#include <sinew/core/base/export.hpp>

namespace sinew::parallel {

/// Gives zeroed memory of the host that is mapped from scratch files. The system keeps as much of it in memory as it
/// has to spare, writes the rest to the disk, and reads it when it is used. So shards of parameters and the optimizer's
/// state may be larger than the memory of the host. The files have no names, so that nothing of them stays behind.
/// Lifetime: memory may outlive this object.
/// Errors:   System with the folder, the bytes and the system's text if the disk has no room for them. The room is
///           reserved at once, so that later writes find it.
/// Source:   Rajbhandari et al., ZeRO-Infinity, arXiv 2104.07857.
class SINEW_API FileMemory {
 public:
  /// folder: on a disk, not in memory as /tmp is on some hosts.
  explicit FileMemory(std::string folder) : folder_(std::move(folder)) {}

  Memory operator()(std::size_t bytes) const;

 private:
  std::string folder_;
};

}  // namespace sinew::parallel
