#include <algorithm>
#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <sinew/collectives/communicator.hpp>
#include <sinew/collectives/communicator_state.hpp>
#include <sinew/core/error.hpp>

namespace sinew {
namespace {

std::string name_of_split(std::string_view given, int color, const CallOptions& options) {
  if (given.size() > kLongestGroupName)
    throw Error(Code::InvalidArgument, fmt::format("split: the name '{}' has {} characters, expected {} at most", given,
                                                   given.size(), kLongestGroupName));
  if (!given.empty()) return std::string(given);
  const std::string_view file(options.where.file_name());
  const std::string name =
      fmt::format("split {} at {}:{}", color, file.substr(file.rfind('/') + 1), options.where.line());
  return name.size() <= kLongestGroupName ? name : fmt::format("split {}", color);
}

}  // namespace

Communicator Communicator::split(int color, int key, const CallOptions& options, std::string_view name) {
  state();
  std::string shown = name_of_split(name, color, options);  // before anything is exchanged, as it may throw
  // Free ids common to all.
  auto& free = state_->world->free_ids;
  std::vector<std::uint64_t> ids = free;
  all_reduce(std::span(ids), ReduceOp::BitAnd, options).get();
  const std::vector<std::int64_t> mine{color, key};
  std::vector<std::int64_t> all(2 * static_cast<std::size_t>(size()));
  all_gather(std::span(mine), std::span(all), options).get();

  // From a place that moves with every split: a message that nobody received before its communicator ended shall not
  // meet the next one.
  const auto first = static_cast<std::ptrdiff_t>(state_->identity_of_child(0) % ids.size());
  const auto is_free = [](std::uint64_t w) { return w != 0; };
  auto word = std::find_if(ids.begin() + first, ids.end(), is_free);
  if (word == ids.end()) word = std::find_if(ids.begin(), ids.begin() + first, is_free);
  if (*word == 0) throw Error(Code::Unavailable, "split: all 32768 communicator ids are in use");
  const auto id = static_cast<std::uint16_t>(2 * (64 * (word - ids.begin()) + std::countr_zero(*word)));
  std::vector<std::pair<std::int64_t, int>> members;
  for (int r = 0; r < size(); ++r) {
    if (all[2 * static_cast<std::size_t>(r)] == color)
      members.emplace_back(all[2 * static_cast<std::size_t>(r) + 1], r);
  }
  std::ranges::sort(members);
  Group group{0, {}, state_->group.generation, id, state_->identity_of_child(color), std::move(shown)};
  std::vector<int> places;  // of the members
  for (const auto& [k, r] : members) {
    if (r == rank()) group.rank = group.size();
    group.world_ranks.push_back(state_->group.world_ranks[static_cast<std::size_t>(r)]);
    places.push_back(r);
  }
  if (color < 0) {
    group.world_ranks.clear();
    state_->split_offloads(group, color, {rank()}, options);
    return {};
  }
  auto made = CommunicatorState::make(state_->keeps_world, group);
  made->adopt(state_->split_offloads(group, color, std::move(places), options));
  return Communicator(std::move(made));
}

}  // namespace sinew
