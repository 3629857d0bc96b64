#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include <sinew/collectives/schedule.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/core/call/collective.hpp>
#include <sinew/topology/network.hpp>

namespace sinew {

/// A partition of the ranks into kinds, found in the programs. Ranks of a kind take the same steps with equal elements.
/// The messages of one step go to ranks of one kind, and are one step there. If ranks share a link of their host (its
/// memory or a NIC), their hosts are of one kind, which have as many ranks of each kind. So a kind moves in lock step.
struct Kinds {
  struct Partner {
    std::uint32_t kind = 0;
    std::uint32_t step = 0;  ///< of the partner's program
  };

  std::vector<int> of_rank;
  std::vector<int> first;  ///< the first rank of each kind
  std::vector<int> size;   ///< the ranks of each kind
  std::vector<int> of_host;
  std::vector<int> first_host;                 ///< by kind of hosts
  std::vector<int> hosts;                      ///< by kind of hosts
  std::vector<std::vector<Partner>> partners;  ///< by kind and step, of steps that are messages
  std::uint64_t steps = 0;                     ///< of the programs of all ranks
};

/// Returns nullopt if there are more than `most` kinds.
/// Shape:  all hosts have as many ranks.
/// Cost:   looks at the program of each rank once, and then refines colours: a pass over all messages for each message
///         of the longest chain through which ranks learn that they differ.
/// Errors: std::logic_error if a message has one end only.
/// Source: Grohe, Kersting, Mladenov, Schweitzer, Color Refinement and its Applications, 2017.
SINEW_API std::optional<Kinds> find_kinds(const std::function<const Program&(int rank)>& program,
                                          const CollectiveDesc& desc, const Network& network, std::size_t most);

}  // namespace sinew
