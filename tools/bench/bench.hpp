#pragma once

#include <cstdint>
#include <memory>

#include <sinew/collectives/virtual_cluster/virtual_world.hpp>
#include <sinew/tools/bench/buffers/device_memory.hpp>
#include <sinew/tools/bench/cases/options.hpp>
#include <sinew/tools/bench/measurement/noise.hpp>
#include <sinew/tools/bench/measurement/peer_contestant.hpp>
#include <sinew/tools/bench/measurement/world_ranks.hpp>
#include <sinew/tools/bench/report/line.hpp>
#include <sinew/topology/cluster.hpp>

namespace sinew::tools {

/// Measures one case in one World, size by size. All ranks make the same calls.
class Bench {
 public:
  /// `peer`: null if no peer is measured. `virtual_world`: null if the ranks are not on a virtual cluster.
  /// Lifetime: `world`, `peer` and `virtual_world` outlive this object.
  Bench(const BenchOptions& options, World& world, const LoadedPeer* peer, const VirtualWorld* virtual_world = nullptr);

  const RunFacts& facts() const noexcept { return facts_; }
  /// Goes on with `variant`, one of variants_of() the options that the constructor got.
  void take_variant(const BenchOptions& variant) { options_ = variant; }
  /// Errors: UsageError on all ranks where a host has too little memory for the longest buffers.
  void require_memory();
  Line measure_size(std::uint64_t bytes);

 private:
  /// The plan of a size, where there is one.
  void add_plan(Line& line);
  Place place() const noexcept {
    if (device_) return device_->place();
    return {options_.on_device ? MemoryKind::Device : MemoryKind::Host};
  }
  bool ranks_fit() const;
  /// Errors: UsageError on all ranks where one has no device.
  void make_device();
  /// The ranks of this host, but only one for each process: the ranks of a virtual cluster are threads of one process.
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

/// The selector's plan for one size of a case, on this rank.
Plan plan_of(const BenchOptions& options, World& world, std::uint64_t count, Place place = {});

}  // namespace sinew::tools
