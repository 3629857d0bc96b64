#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <sinew/collectives/device_hierarchy/hosts_of_group.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/core/call/collective.hpp>

namespace sinew {

/// Bytes of one of the memories that a hierarchical call uses.
struct HierarchyMemory {
  enum class Of : std::uint8_t {
    In,
    Out,     ///< also the data of a broadcast
    Scratch  ///< device memory of the offload
  };
  Of of = Of::Out;
  std::size_t first = 0;
  std::size_t bytes = 0;
};

/// One collective of a hierarchical call.
struct HierarchyStep {
  enum class Among : std::uint8_t {
    Host,  ///< the ranks of this rank's host
    Rail   ///< the ranks at this rank's place on all hosts
  };
  Among among = Among::Host;
  CollectiveDesc desc;  ///< its counts and displacements are those of the program
  HierarchyMemory in;
  HierarchyMemory out;
  std::vector<std::size_t> needs;  ///< the steps that must end before this one starts
};

/// The steps of a call on device memory whose ranks are on several hosts. The steps of each group start in this order,
/// so that all its ranks start the same calls. The pieces of a long call overlap: while one piece is exchanged between
/// the hosts, the next one is summed within them.
/// Cost: the ranks of a host share the bytes that it exchanges with other hosts, so that all of its NICs carry some.
/// Source: hierarchical collectives as in NCCL's CollNet and in BlueConnect (Cho et al., MLSys 2019).
struct HierarchyProgram {
  HierarchyProgram() = default;
  HierarchyProgram(HierarchyProgram&&) = default;
  HierarchyProgram& operator=(HierarchyProgram&&) = default;

  std::vector<HierarchyStep> steps;
  std::size_t scratch_bytes = 0;
  std::vector<std::uint64_t> counts;         ///< of the steps with shared counts
  std::vector<std::uint64_t> displacements;  ///< of the same steps
};

/// The most bytes of a rank that one step of an all_reduce or a broadcast moves between hosts.
inline constexpr std::size_t kRailPieceBytes = 8 << 20;

/// The program of a rank.
/// `desc`: an all_reduce, all_gather, reduce_scatter, all_to_all or broadcast. All hosts have the same number of ranks.
/// For all_gather, reduce_scatter and all_to_all, ranks are numbered host by host.
SINEW_API HierarchyProgram hierarchy_program(const CollectiveDesc& desc, const HostsOfGroup& hosts, int rank);
/// A program for predictions. The ranks of a broadcast have different steps, and this program has all of them. For
/// other collectives it is the program of rank 0.
SINEW_API HierarchyProgram longest_hierarchy_program(const CollectiveDesc& desc, const HostsOfGroup& hosts);

}  // namespace sinew
