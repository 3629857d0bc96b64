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

/// Kinds of ranks that do the same at the same time, so that one rank of each kind can be simulated for all. They are
/// found in the programs:
/// - Ranks of a kind have the same steps, on equal numbers of elements.
/// - If a step is a message, the peers of all ranks of a kind are of one kind, too. For all of these peers it is the
///   same step of their programs.
/// - If ranks share a link of their host (its memory or a NIC), their hosts are of one kind. Hosts of a kind have the
///   same number of ranks of each kind.
struct Kinds {
  struct Partner {
    std::uint32_t kind = 0;
    std::uint32_t step = 0;  ///< of the partner's program
  };

  std::vector<int> of_rank;                    ///< the kind of each rank
  std::vector<int> first;                      ///< the first rank of each kind
  std::vector<int> size;                       ///< the ranks of each kind
  std::vector<int> of_host;                    ///< the kind of each host
  std::vector<int> first_host;                 ///< the first host of each kind
  std::vector<int> hosts;                      ///< the hosts of each kind
  std::vector<std::vector<Partner>> partners;  ///< [kind][step]: the other end, if the step is a message
  std::uint64_t steps = 0;                     ///< of the programs of all ranks together
};

/// Finds the kinds by colour refinement: ranks begin with a colour for their program, and in each round a rank's colour
/// is combined with those of its peers, until no new colours appear. Returns nullopt if there are more than `most`
/// kinds.
/// Shape:  all hosts have the same number of ranks.
/// Cost:   one look at each program, and then one pass over all messages for each round.
/// Errors: std::logic_error if a message has one end only.
/// Source: Grohe, Kersting, Mladenov, Schweitzer, Color Refinement and its Applications, 2017.
SINEW_API std::optional<Kinds> find_kinds(const std::function<const Program&(int rank)>& program,
                                          const CollectiveDesc& desc, const Network& network, std::size_t most);

}  // namespace sinew
