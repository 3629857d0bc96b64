#include <algorithm>

#include <sinew/parallel/data_parallel/memory/flat_group.hpp>

namespace sinew::parallel {
namespace {

std::int64_t rounded_up(std::int64_t n, std::int64_t to) noexcept { return (n + to - 1) / to * to; }

}  // namespace

FlatGroup flat_group(const std::vector<DataParameter>& parameters, const std::vector<std::int32_t>& members,
                     int shards) {
  const DataParameter& first = parameters[static_cast<std::size_t>(members.front())];
  FlatGroup group{.dtype = first.dtype, .parameters = members, .shards = shards};
  const std::size_t smaller = std::min(size_of(first.dtype), size_of(first.gradient_dtype()));
  const std::int64_t line = 64 / static_cast<std::int64_t>(smaller);
  std::int64_t end = 0;
  for (const std::int32_t p : members) {
    group.offsets.push_back(rounded_up(end, line));
    end = group.offsets.back() + parameters[static_cast<std::size_t>(p)].elements;
  }
  group.shard_elements = rounded_up((end + shards - 1) / shards, line);
  return group;
}

FlatGroup of_gradients(FlatGroup group, const std::vector<DataParameter>& parameters) {
  group.dtype = parameters[static_cast<std::size_t>(group.parameters.front())].gradient_dtype();
  return group;
}

std::vector<ShardPart> parts_of(const FlatGroup& group, const std::vector<DataParameter>& parameters, int index) {
  const std::int64_t from = index * group.shard_elements;
  const std::int64_t until = from + group.shard_elements;
  std::vector<ShardPart> parts;
  for (std::size_t i = 0; i < group.parameters.size(); ++i) {
    const std::int64_t begin = group.offsets[i];
    const std::int64_t end = begin + parameters[static_cast<std::size_t>(group.parameters[i])].elements;
    const std::int64_t first = std::max(begin, from);
    const std::int64_t last = std::min(end, until);
    if (first < last) parts.push_back({group.parameters[i], first - begin, last - begin, first - from});
  }
  return parts;
}

}  // namespace sinew::parallel
