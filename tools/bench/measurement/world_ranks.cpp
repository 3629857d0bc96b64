#include "world_ranks.hpp"

#include <algorithm>
#include <cstdint>
#include <random>
#include <utility>

namespace sinew::tools {
namespace {

constexpr std::size_t kSecretBytes = 32;

}  // namespace

std::vector<double> WorldRanks::gather(std::span<const double> mine) {
  std::vector<double> all(mine.size() * static_cast<std::size_t>(size()));
  communicator_.all_gather(mine, all).get();
  return all;
}

Exchange WorldRanks::exchange() {
  return {rank(), size(), [this](const Bytes& mine) { return gather_bytes(mine); }};
}

std::vector<Bytes> WorldRanks::gather_bytes(const Bytes& mine) {
  const double length = static_cast<double>(mine.size());
  const std::vector<double> lengths = gather({&length, 1});
  const auto longest = static_cast<std::size_t>(std::ranges::max(lengths));
  std::vector<std::uint8_t> padded(longest);
  std::transform(mine.begin(), mine.end(), padded.begin(),
                 [](std::byte b) { return std::to_integer<std::uint8_t>(b); });
  std::vector<std::uint8_t> all(longest * lengths.size());
  communicator_.all_gather(padded, all).get();
  std::vector<Bytes> result;
  for (std::size_t r = 0; r < lengths.size(); ++r) {
    const auto* first = reinterpret_cast<const std::byte*>(all.data()) + r * longest;
    result.emplace_back(first, first + static_cast<std::size_t>(lengths[r]));
  }
  return result;
}

World world_over(const Exchange& exchange, WorldOptions options) {
  Bytes secret(kSecretBytes);
  std::random_device device;
  std::ranges::generate(secret, [&] { return static_cast<std::byte>(device()); });
  options.secret = exchange.all_gather(exchange.rank == 0 ? secret : Bytes{}).front();
  return World::create(exchange, std::move(options));
}

}  // namespace sinew::tools
