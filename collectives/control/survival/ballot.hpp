#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/core/net/socket_address.hpp>

namespace sinew {

/// Who goes on after a failure, and where they meet.
struct Ballot {
  std::uint64_t number = 0;
  std::vector<int> members;  ///< ranks of the generation that ends, ascending
  std::vector<SocketAddress> addresses;
};

/// Members and addresses as the message of a notice: a bit for each of `ranks`, then text. Whoever is left, the bits
/// take 512 bytes for 4,096 ranks, which leaves room for nine addresses.
/// Errors: Unavailable where they do not fit into a notice.
SINEW_API std::string message_of(const Ballot& ballot, std::size_t ranks);
/// Errors: Mismatch where it is shorter than the bits; InvalidArgument where other text than addresses follows.
SINEW_API Ballot parse_ballot(std::uint64_t number, std::string_view message, std::size_t ranks);

}  // namespace sinew
