#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <sinew/collectives/communicator.hpp>
#include <sinew/collectives/world/communicator_state.hpp>
#include <sinew/collectives/world/id_ballot.hpp>
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
  const std::uint16_t id = choose_communicator_id(
      *state_->world, state_->identity_of_child(0),
      [&](std::span<std::uint64_t> words) { all_reduce(words, ReduceOp::BitAnd, options).get(); });
  const std::vector<std::int64_t> mine{color, key};
  std::vector<std::int64_t> all(2 * static_cast<std::size_t>(size()));
  all_gather(std::span(mine), std::span(all), options).get();

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
    state_->world->give_id_back(id);
    group.world_ranks.clear();
    state_->split_offloads(group, color, {rank()}, options);
    return {};
  }
  auto made = CommunicatorState::make(state_->keeps_world, group);
  made->adopt(state_->split_offloads(group, color, std::move(places), options));
  return Communicator(std::move(made));
}

}  // namespace sinew
