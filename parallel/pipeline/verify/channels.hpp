#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <sinew/parallel/pipeline/schedule/inventory.hpp>

namespace sinew::parallel {

/// The messages from one rank to another: the numbers of their actions, in the order of each end.
struct Channel {
  std::int32_t from = 0, to = 0;
  std::vector<std::int32_t> sends, receives;
};

/// The channels between neighbouring stages of a schedule in which find_gap() finds nothing.
std::vector<Channel> channels_of(const Inventory& inventory);

/// The first message that its two ends do not have at the same place. Empty: there is none. Messages of a pair of ranks
/// arrive in the order in which they are sent.
std::string find_disorder(const Inventory& inventory, const std::vector<Channel>& channels);

}  // namespace sinew::parallel
