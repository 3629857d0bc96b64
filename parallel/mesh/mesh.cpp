#include <utility>
#include <vector>

#include <fmt/ranges.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/mesh/agreement.hpp>
#include <sinew/parallel/mesh/group_maker.hpp>
#include <sinew/parallel/mesh/mesh.hpp>

namespace sinew::parallel {
namespace {

std::vector<std::string> every_axis(const Factorisation& shape) {
  std::vector<std::string> names;
  for (const Axis& a : shape.axes()) names.push_back(a.name);
  return names;
}

std::vector<std::string> names_in(const Communicator& all) {
  std::vector<std::string> names;
  for (int rank = 0; rank < all.size(); ++rank) names.push_back(all.rank_text(rank));
  return names;
}

}  // namespace

Mesh::Mesh(Communicator& all, Factorisation shape, std::span<const std::string> groups, const CallOptions& options)
    : shape_(std::move(shape)), rank_(all.rank()), names_(names_in(all)) {
  const std::vector<std::string> wanted =
      groups.empty() ? every_axis(shape_) : std::vector<std::string>(groups.begin(), groups.end());
  const std::string asked = fmt::format("{}; groups {}", shape_.to_string(), fmt::join(wanted, ", "));
  require_equal_on_all(all, "mesh", asked, options);
  if (shape_.ranks() != all.size())
    throw Error(Code::InvalidArgument, fmt::format("mesh: {} are {} ranks; expected {}, those of the communicator",
                                                   shape_.to_string(), shape_.ranks(), all.size()));
  GroupMaker maker(all, options);
  make_groups(maker, wanted);
}

Mesh::Mesh(GroupMaker& maker, Factorisation shape, std::span<const std::string> groups)
    : shape_(std::move(shape)), rank_(maker.all().rank()), names_(names_in(maker.all())) {
  make_groups(maker, groups);
}

void Mesh::make_groups(GroupMaker& maker, std::span<const std::string> groups) {
  std::vector<std::string> names;
  for (const std::string& axes : groups) names.push_back(shape_.in_order(axes));  // all, before anything is made
  for (const std::string& name : names) {
    if (groups_.contains(name)) continue;
    groups_.emplace(name, maker.make(shape_.group_of(rank_, name), shape_.size(name), name));
  }
}

std::vector<std::string> Mesh::groups() const {
  std::vector<std::string> names;
  for (const auto& [name, group] : groups_) names.push_back(name);
  return names;
}

Communicator& Mesh::along(std::string_view axes) {
  const auto found = groups_.find(shape_.in_order(axes));
  if (found != groups_.end()) return *found->second;
  throw Error(
      Code::InvalidArgument,
      fmt::format("mesh of {}: no group along '{}' has been made; there are {}; the constructor makes those that "
                  "its argument `groups` names",
                  shape_.to_string(), axes, fmt::join(groups(), ", ")));
}

}  // namespace sinew::parallel
