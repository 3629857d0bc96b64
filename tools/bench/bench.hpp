#pragma once

#include <cstdint>
#include <memory>

#include <sinew/collectives/virtual_cluster/virtual_world.hpp>
#include <sinew/topology/cluster.hpp>

#include "device_memory.hpp"
#include "line.hpp"
#include "noise.hpp"
#include "options.hpp"
#include "peer_contestant.hpp"
#include "world_ranks.hpp"

namespace sinew::tools {

/// One case measured in one World, size by size. All ranks call the same.
class Bench {
 public:
  /// The world, `peer` and `virtual_world` live as long. `peer` null: none; `virtual_world` null: ranks are where they
  /// are.
  Bench(const BenchOptions& options, World& world, const LoadedPeer* peer, const VirtualWorld* virtual_world = nullptr);

  const RunFacts& facts() const noexcept { return facts_; }
  /// From now on another of variants_of() the options.
  void take_variant(const BenchOptions& variant) { options_ = variant; }
  /// Errors: UsageError on all ranks where a host has too little memory for the longest buffers.
  void require_memory();
  Line measure_size(std::uint64_t bytes);

 private:
  /// The plan of a size, where there is one.
  void add_plan(Line& line);
  Place place() const noexcept { return device_ ? device_->place() : Place{}; }
  bool ranks_fit() const;
  /// Errors: UsageError on all ranks where one has no device.
  void make_device();
  /// A process is counted once; all ranks of a virtual cluster are of one.
  std::vector<int> ranks_to_account() const;
  RingMemory allocate(std::size_t bytes);

  BenchOptions options_;
  World& world_;
  const LoadedPeer* peer_;
  const VirtualWorld* virtual_world_;
  std::unique_ptr<DeviceMemory> device_;  ///< null: buffers are host memory
  WorldRanks ranks_;
  Cluster cluster_;
  NoiseGauge noise_;
  RunFacts facts_;
};

/// What the selector is asked for one size of a case, on this rank.
Plan plan_of(const BenchOptions& options, World& world, std::uint64_t count, Place place = {});

}  // namespace sinew::tools
