#include <array>

#include <fmt/format.h>

#include <sinew/collectives/control/notice.hpp>
#include <sinew/collectives/control/survival/ballot.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/store/store_client.hpp>

namespace sinew {
namespace {

constexpr std::size_t kBits = 8;

std::size_t bytes_for(std::size_t ranks) noexcept { return (ranks + kBits - 1) / kBits; }

}  // namespace

std::string message_of(const Ballot& ballot, std::size_t ranks) {
  std::string message(bytes_for(ranks), '\0');
  for (const int r : ballot.members) {
    const auto bit = static_cast<std::size_t>(r);
    message[bit / kBits] = static_cast<char>(static_cast<unsigned char>(message[bit / kBits]) | 1U << bit % kBits);
  }
  const std::string addresses = format_addresses(ballot.addresses);
  message += addresses;
  constexpr std::size_t kRoom = std::tuple_size_v<decltype(Notice::text)>;
  if (message.size() <= kRoom) return message;
  throw Error(Code::Unavailable,
              fmt::format("who survives of {} ranks and where they meet does not fit into a notice of {} bytes: {}",
                          ranks, kRoom, addresses));
}

Ballot parse_ballot(std::uint64_t number, std::string_view message, std::size_t ranks) {
  const std::size_t bytes = bytes_for(ranks);
  if (message.size() < bytes) {
    throw Error(Code::Mismatch, fmt::format("a proposal of {} bytes for {} ranks, expected {} and addresses",
                                            message.size(), ranks, bytes));
  }
  Ballot ballot{number, {}, parse_addresses(message.substr(bytes))};
  for (std::size_t r = 0; r < ranks; ++r) {
    const auto byte = static_cast<unsigned char>(message[r / kBits]);
    if ((byte >> r % kBits & 1U) != 0) ballot.members.push_back(static_cast<int>(r));
  }
  return ballot;
}

}  // namespace sinew
