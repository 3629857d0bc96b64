#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <sinew/parallel/pipeline/schedule/inventory.hpp>

namespace sinew::parallel {

/// The messages from one rank to another, by number of their actions, in the order of either end.
struct Channel {
  std::int32_t from = 0, to = 0;
  std::vector<std::int32_t> sends, receives;
};

/// All between neighbouring stages of a schedule that find_gap() finds nothing in.
std::vector<Channel> channels_of(const Inventory& inventory);

/// The first message that its two ends have at different places; empty: there is none. Messages of a pair of ranks
/// arrive in the order in which they were sent.
std::string find_disorder(const Inventory& inventory, const std::vector<Channel>& channels);

}  // namespace sinew::parallel
