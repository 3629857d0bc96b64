#pragma once

#include <exception>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <sinew/collectives/selection/option.hpp>
#include <sinew/core/base/exchange.hpp>
#include <sinew/core/call/call_options.hpp>
#include <sinew/core/call/group.hpp>
#include <sinew/core/offload.hpp>

namespace sinew {

struct CommunicatorState;
struct WorldState;

/// Lets a module make an offload over `base`. All ranks take `most` rounds, even if `make` throws.
/// Errors: those of `make`, after the rounds.
template <class Make>
std::unique_ptr<CollectiveOffload> in_rounds(const Exchange& base, int most, Make&& make) {
  int rounds = 0;
  const Exchange counted{base.rank, base.size, [&](const Bytes& mine) {
                           ++rounds;
                           return base.all_gather(mine);
                         }};
  std::unique_ptr<CollectiveOffload> offload;
  std::exception_ptr failure;
  try {
    offload = make(counted);
  } catch (...) {
    failure = std::current_exception();
  }
  for (; rounds < most; ++rounds) base.all_gather({});
  if (failure) std::rethrow_exception(failure);
  return offload;
}

// The functions below take the World's lock, but not during rounds of an exchange.

/// Makes the offloads of these transports for a new communicator. `all` is an exchange among its ranks.
std::vector<NamedOffload> make_offloads(WorldState& world, const Group& group, const Exchange& all,
                                        std::span<const std::string> transports);
/// Makes those of all transports that have one.
std::vector<NamedOffload> make_offloads(WorldState& world, const Group& group, const Exchange& all);
/// Makes the offloads of `part`, a new communicator with this color that a split of `whole` makes. `part` is empty if
/// this rank gets none. `places` are the ranks of its members in `whole`, or this rank alone.
std::vector<NamedOffload> split_offloads(CommunicatorState& whole, const Group& part, int color,
                                         const std::vector<int>& places, const CallOptions& options);
/// The prospects of these offloads in a group of World ranks with devices, as offloads that only plan.
std::vector<NamedOffload> planned_offloads(const WorldState& world, std::span<const int> world_ranks,
                                           std::span<const std::string> transports);

}  // namespace sinew
