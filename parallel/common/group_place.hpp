#pragma once

#include <sinew/collectives/communicator.hpp>

namespace sinew::parallel {

/// This rank's number in a communicator, and how many ranks the communicator has. An empty communicator counts as a
/// group of one rank: nothing is sent there.
struct GroupPlace {
  int rank = 0, ranks = 1;

  explicit GroupPlace(const Communicator& group) noexcept {
    if (group.size() > 0) rank = group.rank(), ranks = group.size();
  }
};

}  // namespace sinew::parallel
