#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/common/at.hpp>
#include <sinew/parallel/data_parallel/equal_parameters.hpp>
#include <sinew/parallel/mesh/agreement.hpp>

namespace sinew::parallel {
namespace {

std::string text_of(const DataParameter& p) {
  std::string text = fmt::format("{} {} {} {} {} gradient {}", p.path, name_of(p.dtype), p.elements, p.unit, p.uses,
                                 name_of(p.gradient_dtype()));
  const bool is_flat = p.shape.size() == 1 && p.elements == p.shape.front();
  if (!is_flat)
    text += fmt::format(" of [{}] from [{}] to [{}]", fmt::join(p.shape, ", "), fmt::join(p.box.first, ", "),
                        fmt::join(p.box.last, ", "));
  return p.spread.empty() ? text : text + " along " + p.spread;
}

/// The first index whose value is not the same on all ranks; `values.size()`: none.
std::size_t first_difference(Communicator& group, const std::vector<std::uint64_t>& values,
                             const CallOptions& options) {
  std::vector<std::uint64_t> least(values.size()), most(values.size());
  group.all_reduce(values, least, ReduceOp::Min, options).get();
  group.all_reduce(values, most, ReduceOp::Max, options).get();
  std::size_t i = 0;
  while (i < values.size() && least[i] == most[i]) ++i;
  return i;
}

/// The first difference between the ranks of one group. `numbers`: its ranks in the mesh.
std::optional<Difference> difference_along(Communicator& group, const std::string& axis,
                                           const std::vector<int>& numbers, const std::string& what,
                                           const std::vector<DataParameter>& parameters,
                                           const std::vector<std::uint64_t>& hashes, const CallOptions& options) {
  const std::string asked = fmt::format("{}, {} parameters", what, parameters.size());
  if (auto found = difference_on(group, "data parallelism", asked, options, numbers)) return found;
  const std::size_t differs = first_difference(group, hashes, options);
  if (differs == hashes.size()) return {};
  const DataParameter& p = parameters[differs / 2];
  if (differs % 2 == 0)
    return difference_on(group, fmt::format("parameter {}", differs / 2), text_of(p), options, numbers);
  std::vector<std::uint64_t> all(static_cast<std::size_t>(group.size()));
  group.all_gather(std::span(&hashes[differs], 1), all, options).get();
  Difference found = difference_of(all, group.rank());
  const auto odd = static_cast<std::size_t>(found.rank);
  const auto usual = std::ranges::find_if(all, [&](std::uint64_t h) { return h != all[odd]; }) - all.begin();
  found.rank = numbers[odd];
  found.text = fmt::format(
      "parameter '{}': the values of {} along '{}' are not those of {}; expected the same on all ranks: broadcast "
      "them, or seed all alike",
      p.path, group.rank_text(static_cast<int>(odd)), axis, group.rank_text(static_cast<int>(usual)));
  return found;
}

}  // namespace

void require_no_fault(Mesh& mesh, const std::vector<std::string>& axes, const std::optional<Error>& fault,
                      const CallOptions& options, int differs) {
  const int stopping = who_stops(mesh, axes, fault && differs == 0, differs, options);
  if (fault) throw Error(fault->code(), fault->what(), stopping);
  if (stopping >= 0)
    throw Error(Code::InvalidArgument,
                fmt::format("data parallelism: {} has refused it, and says why", mesh.rank_text(stopping)), stopping);
}

void require_equal_parameters(Mesh& mesh, const std::vector<std::string>& axes, const std::string& what,
                              const std::vector<DataParameter>& parameters,
                              std::optional<std::span<const ConstBuffer>> values, const CallOptions& options) {
  std::vector<std::uint64_t> hashes;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    hashes.push_back(hash_of(text_of(parameters[i])));
    const ConstBuffer value = values ? (*values)[i] : ConstBuffer();
    hashes.push_back(hash_of({reinterpret_cast<const char*>(value.data), value.bytes}));
  }
  std::optional<Error> difference;
  int differs = 0;
  for (const std::string& axis : axes) {
    Communicator& group = mesh.along(axis);
    if (group.size() == 1) continue;
    const auto found =
        difference_along(group, axis, mesh.shape().group_of(mesh.rank(), axis), what, parameters, hashes, options);
    if (!found) continue;
    differs += found->suspect ? 1 : 0;
    if (!difference || found->suspect) difference = Error(Code::InvalidArgument, found->text, found->rank);
  }
  require_no_fault(mesh, axes, difference, options, differs);
}

InitialValues parts_of_whole(std::span<const ConstBuffer> values) {
  return [values](const InitialPart& part) {
    const std::size_t begin = static_cast<std::size_t>(part.first) * size_of(part.parameter.dtype);
    std::memcpy(part.into.data, values[at(part.number)].data + begin, part.into.bytes);
  };
}

}  // namespace sinew::parallel
