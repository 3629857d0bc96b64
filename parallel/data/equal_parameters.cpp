#include <array>
#include <cstdint>
#include <optional>
#include <span>
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

void require_equal_along(Communicator& group, const std::string& axis, const std::vector<DataParameter>& parameters,
                         const std::vector<std::uint64_t>& hashes) {
  require_equal_on_all(group, "data parallelism", fmt::format("{} parameters", parameters.size()), {});
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

}  // namespace

void require_no_fault(Mesh& mesh, const std::vector<std::string>& axes, const std::optional<Error>& fault) {
  std::array<std::int32_t, 1> stopping{fault ? mesh.rank() : -1};
  take_largest(std::span<std::int32_t>(stopping), axes, mesh, {});
  if (fault) throw *fault;
  if (stopping[0] >= 0)
    throw Error(Code::InvalidArgument,
                fmt::format("data parallelism: rank {} of the mesh has refused it, and says why", stopping[0]),
                stopping[0]);
}

void require_equal_parameters(Mesh& mesh, const std::vector<std::string>& axes,
                              const std::vector<DataParameter>& parameters, std::span<const ConstBuffer> values) {
  std::vector<std::uint64_t> hashes;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    hashes.push_back(hash_of(text_of(parameters[i])));
    hashes.push_back(hash_of({reinterpret_cast<const char*>(values[i].data), values[i].bytes}));
  }
  std::optional<Error> difference;
  for (const std::string& axis : axes) {
    Communicator& group = mesh.along(axis);
    if (group.size() == 1) continue;
    try {
      require_equal_along(group, axis, parameters, hashes);
    } catch (const Error& e) {
      if (e.code() != Code::InvalidArgument) throw;
      difference = e;  // the ranks of the other axes wait for this one
    }
  }
  require_no_fault(mesh, axes, difference);
}

}  // namespace sinew::parallel
