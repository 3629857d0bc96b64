#include <algorithm>
#include <bit>
#include <vector>

#include <sinew/collectives/world/id_ballot.hpp>
#include <sinew/collectives/world/world_state.hpp>
#include <sinew/core/base/wire.hpp>
#include <sinew/core/call/collective.hpp>
#include <sinew/core/error.hpp>

namespace sinew {
namespace {

/// The number of a set bit; below 0: none is set. Looks at word `first` first.
std::ptrdiff_t find_bit(std::span<const std::uint64_t> words, std::size_t first) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::size_t at = (first + i) % words.size();
    if (words[at] != 0) return static_cast<std::ptrdiff_t>(64 * at) + std::countr_zero(words[at]);
  }
  return -1;
}

}  // namespace

AndOfAll and_over(const Exchange& members) {
  return [&members](std::span<std::uint64_t> words) {
    const auto bytes = std::as_bytes(words);
    for (const Bytes& theirs : members.all_gather({bytes.begin(), bytes.end()})) {
      WireReader reader(theirs);
      for (std::uint64_t& word : words) word &= reader.value<std::uint64_t>();
    }
  };
}

std::uint16_t choose_communicator_id(WorldState& world, std::uint64_t seed, const AndOfAll& and_of_all) {
  for (std::uint64_t attempt = 0;; ++attempt) {
    std::vector<std::uint64_t> free;
    {
      const auto held = world.hold();
      free = world.free_ids;
    }
    and_of_all(free);
    // From a place that differs between ballots: a message that nobody received before its communicator ended must not
    // meet the next communicator.
    const std::ptrdiff_t bit = find_bit(free, mix(seed, attempt + 1) % free.size());
    if (bit < 0) throw Error(Code::Unavailable, "all communicator ids are in use: expected at most 32766 at a time");
    std::uint64_t& word = world.free_ids[static_cast<std::size_t>(bit / 64)];
    const std::uint64_t mask = std::uint64_t{1} << (bit % 64);
    bool is_mine = false;
    {
      const auto held = world.hold();
      is_mine = (word & mask) != 0;
      word &= ~mask;
    }
    const auto give_back = [&] {
      if (!is_mine) return;
      const auto held = world.hold();
      word |= mask;
    };
    std::uint64_t all_have = is_mine ? 1 : 0;
    try {
      and_of_all({&all_have, 1});
    } catch (...) {
      give_back();
      throw;
    }
    if (all_have != 0) return static_cast<std::uint16_t>(2 * bit);
    give_back();
  }
}

}  // namespace sinew
