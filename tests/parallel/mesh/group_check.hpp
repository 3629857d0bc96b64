#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <fmt/ranges.h>

#include <sinew/collectives/world.hpp>

#include "support/worlds.hpp"

namespace sinew::parallel::test {

/// Throws unless `group` is a communicator of exactly these ranks of the job, in this order, this one among them: an
/// all_reduce sums one bit per rank, an all_gather shows the order.
inline void require_group(Communicator& group, const std::vector<int>& ranks, int rank, const std::string& name) {
  const auto where = [&] { return fmt::format("{} of rank {}, expected {}", name, rank, fmt::join(ranks, " ")); };
  sinew::test::require(group.size() == static_cast<int>(ranks.size()), fmt::format("{}: {}", where(), group.size()));
  std::vector<std::uint64_t> bits{std::uint64_t{1} << rank};
  group.all_reduce(bits).get();
  std::uint64_t expected = 0;
  for (const int r : ranks) expected |= std::uint64_t{1} << r;
  sinew::test::require(bits[0] == expected, fmt::format("{}: sum {:#x}", where(), bits[0]));
  const std::vector<int> mine{rank};
  std::vector<int> all(ranks.size());
  group.all_gather(mine, all).get();
  sinew::test::require(all == ranks, fmt::format("{}: {}", where(), fmt::join(all, " ")));
}

/// Throws unless `call` must fail and says this, on every rank alike, and leaves nobody waiting: the world goes on.
inline void require_complaint(World& world, const std::string& expected, const std::function<void()>& call) {
  const std::string said = sinew::test::complaint(call);
  sinew::test::require(said == expected, said);
  std::vector<int> ones{1};
  world.communicator().all_reduce(ones).get();
  sinew::test::require(ones[0] == world.size(), "the communicator goes on");
}

}  // namespace sinew::parallel::test
