#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <sinew/collectives/world/child_communicator.hpp>
#include <sinew/collectives/world/id_ballot.hpp>
#include <sinew/collectives/world/making_offloads.hpp>
#include <sinew/collectives/world/split.hpp>
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

std::shared_ptr<CommunicatorState> split(Communicator& whole, CommunicatorState& state, int color, int key,
                                         const CallOptions& options, std::string_view name) {
  std::string shown = name_of_split(name, color, options);  // before anything is exchanged, as it may throw
  const std::uint16_t id = choose_communicator_id(
      *state.world, state.identity_of_child(0),
      [&](std::span<std::uint64_t> words) { whole.all_reduce(words, ReduceOp::BitAnd, options).get(); });
  const std::vector<std::int64_t> mine{color, key};
  std::vector<std::int64_t> all(2 * static_cast<std::size_t>(whole.size()));
  whole.all_gather(std::span(mine), std::span(all), options).get();

  std::vector<std::pair<std::int64_t, int>> members;
  for (int r = 0; r < whole.size(); ++r) {
    if (all[2 * static_cast<std::size_t>(r)] == color)
      members.emplace_back(all[2 * static_cast<std::size_t>(r) + 1], r);
  }
  std::ranges::sort(members);
  Group group{0, {}, state.group.generation, id, state.identity_of_child(color), std::move(shown)};
  std::vector<int> places;  // of the members
  for (const auto& [k, r] : members) {
    if (r == whole.rank()) group.rank = group.size();
    group.world_ranks.push_back(state.group.world_ranks[static_cast<std::size_t>(r)]);
    places.push_back(r);
  }
  if (color < 0) {
    state.world->give_id_back(id);
    group.world_ranks.clear();
    split_offloads(state, group, color, {whole.rank()}, options);
    return {};
  }
  auto made = CommunicatorState::make(state.keeps_world, group);
  made->adopt(split_offloads(state, group, color, places, options));
  add_device_hierarchy(*made, made->exchange(options));
  return made;
}

}  // namespace sinew
