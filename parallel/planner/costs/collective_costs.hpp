#pragma once

#include <cstdint>
#include <map>
#include <tuple>

#include <sinew/collectives/algorithms/algorithm.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/core/call/collective.hpp>
#include <sinew/core/call/cost_model.hpp>
#include <sinew/topology/network.hpp>

namespace sinew::parallel {

/// The ranks of a group along an axis: how many, and the distance from one to the next.
struct GroupShape {
  int ranks = 1;
  int stride = 1;
  friend bool operator==(const GroupShape&, const GroupShape&) = default;
};

/// Predicted times of collectives while all groups of an axis make the same call. Such groups share NICs and the memory
/// of a host. So a call is simulated on one group's share of the network.
/// Model: a group on several hosts, with several ranks on each, works by levels, as HierarchicalAlgorithm does, one
///        level after the other. On each level the two algorithms with the best rough predictions are simulated, and
///        the faster one is taken. An all_to_all always sends directly.
/// Cost:  simulations run when a time is first asked for, and their results are kept. They run at powers of four
///        between 4 KiB and 256 MiB. Times between these sizes are interpolated linearly. Below 4 KiB the time is that
///        of 4 KiB. Above 256 MiB it is proportional to the bytes.
class SINEW_API CollectiveCosts {
 public:
  explicit CollectiveCosts(Network network);

  /// bytes: those of the larger buffer, as CollectiveDesc::bytes counts. The result is 0 for groups of one rank, and
  /// for 0 bytes.
  /// Errors: InvalidArgument for other collectives than all_reduce, all_gather, reduce_scatter and all_to_all.
  Seconds seconds(Collective collective, const GroupShape& group, double bytes);
  /// The time of a message to the rank at distance `stride`, while all ranks send such a message.
  Seconds message(int stride, double bytes) const;
  /// The number of simulations that were run.
  int simulated() const noexcept { return simulated_; }

 private:
  /// The place of a group on the network: its hosts, the distance between them, and the number of its ranks on each.
  struct Spread {
    int on_host = 1;
    int hosts = 1;
    int hosts_apart = 1;
  };
  using Key = std::tuple<Collective, int, int, int, int>;  // collective, on_host, hosts, hosts_apart, power of four

  Sharers sharers_of_messages(int stride) const noexcept;
  Spread spread_of(const GroupShape& group) const noexcept;
  Network part_of(const Spread& spread) const;
  Seconds on_level(Collective collective, const Spread& spread, double bytes);
  Seconds at_power(Collective collective, const Spread& spread, int power);
  Seconds simulate_best(const CollectiveDesc& desc, const Network& network);

  Network network_;
  std::map<Key, Seconds> known_;
  int simulated_ = 0;
};

}  // namespace sinew::parallel
