#include <cstdint>
#include <string>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/data/equal_parameters.hpp>
#include <sinew/parallel/mesh/agreement.hpp>

namespace sinew::parallel {
namespace {

std::string text_of(const DataParameter& p) {
  return fmt::format("{} {} {} {} {}", p.path, name_of(p.dtype), p.elements, p.unit, p.uses);
}

/// The first index whose value is not the same on all ranks; `values.size()`: none.
std::size_t first_difference(Communicator& group, const std::vector<std::uint64_t>& values) {
  std::vector<std::uint64_t> least(values.size()), most(values.size());
  group.all_reduce(values, least, ReduceOp::Min).get();
  group.all_reduce(values, most, ReduceOp::Max).get();
  std::size_t i = 0;
  while (i < values.size() && least[i] == most[i]) ++i;
  return i;
}

}  // namespace

void require_equal_parameters(Mesh& mesh, std::string_view axis, const std::vector<DataParameter>& parameters,
                              std::span<const ConstBuffer> values) {
  Communicator& group = mesh.along(axis);
  if (group.size() == 1) return;
  require_equal_on_all(group, "data parallelism", fmt::format("{} parameters", parameters.size()), {});
  std::vector<std::uint64_t> hashes;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    hashes.push_back(hash_of(text_of(parameters[i])));
    hashes.push_back(hash_of({reinterpret_cast<const char*>(values[i].data), values[i].bytes}));
  }
  const std::size_t differs = first_difference(group, hashes);
  if (differs == hashes.size()) return;
  const DataParameter& p = parameters[differs / 2];
  if (differs % 2 == 0) require_equal_on_all(group, fmt::format("parameter {}", differs / 2), text_of(p), {});
  std::vector<std::uint64_t> all(static_cast<std::size_t>(group.size()));
  group.all_gather(std::span(&hashes[differs], 1), all).get();
  int rank = 1;
  while (all[static_cast<std::size_t>(rank)] == all[0]) ++rank;
  throw Error(
      Code::InvalidArgument,
      fmt::format("parameter '{}': the values of rank {} along '{}' are not those of rank 0; expected the same on "
                  "all ranks: broadcast them, or seed all alike",
                  p.path, rank, axis),
      rank);
}

}  // namespace sinew::parallel
