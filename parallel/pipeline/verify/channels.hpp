#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <sinew/parallel/pipeline/schedule/inventory.hpp>

namespace sinew::parallel {

/// All messages from one rank to another: the numbers of the sends in the sender's order, and of the receives in the
/// receiver's order.
struct Channel {
  std::int32_t from = 0, to = 0;
  std::vector<std::int32_t> sends, receives;
};

/// The channels between neighbouring stages of a schedule in which find_gap() finds nothing.
std::vector<Channel> channels_of(const Inventory& inventory);

/// Describes the first message that the sender and the receiver have at different places in their order. Empty: there
/// is none. The order must be the same, because messages of a pair of ranks arrive in the order in which they are sent.
std::string find_disorder(const Inventory& inventory, const std::vector<Channel>& channels);

}  // namespace sinew::parallel
