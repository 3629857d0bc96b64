#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/ranges.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/mesh/agreement.hpp>
#include <sinew/parallel/mesh/group_maker.hpp>
#include <sinew/parallel/mesh/job_mesh.hpp>
#include <sinew/parallel/mesh/layout_arithmetic.hpp>

namespace sinew::parallel {
namespace {

std::string to_string(const LayoutSizes& sizes) {
  std::string text;
  for (const SizeField& f : kSizeFields) text += fmt::format("{} {}, ", f.name, sizes.*f.value);
  text += "order " + sizes.order;
  return sizes.cp_levels.empty() ? text : text + fmt::format(", cp_levels {}", fmt::join(sizes.cp_levels, ", "));
}

Layout agreed_layout(Communicator& all, const LayoutSizes& sizes, const CallOptions& options) {
  require_equal_on_all(all, "layout", to_string(sizes), options);
  return {all.size(), sizes};
}

std::vector<std::string> groups_of(Arrangement arrangement) {
  std::vector<std::string> names;
  for (const JobGroup& g : kJobGroups) {
    if (g.of == arrangement) names.emplace_back(g.axes);
  }
  return names;
}

std::vector<std::string> levels_of(const Layout& layout) {
  std::vector<std::string> names;
  for (int level = 0; layout.levels() > 1 && level < layout.levels(); ++level)
    names.push_back(fmt::format("cp{}", level));
  return names;
}

/// Makes this rank's communicator for groups that need not contain every rank.
std::shared_ptr<Communicator> make_among(GroupMaker& maker, const std::vector<std::vector<int>>& groups,
                                         std::string_view name) {
  std::vector<int> members;
  std::size_t largest = 0;
  for (const std::vector<int>& g : groups) {
    largest = std::max(largest, g.size());
    if (std::ranges::find(g, maker.all().rank()) != g.end()) members = g;
  }
  return maker.make(members, static_cast<int>(largest), name);
}

}  // namespace

JobMesh::JobMesh(Communicator& all, const LayoutSizes& sizes, const CallOptions& options)
    : JobMesh(GroupMaker(all, options), agreed_layout(all, sizes, options)) {}

JobMesh::JobMesh(GroupMaker maker, Layout layout)
    : layout_(std::move(layout)),
      dense_(maker, layout_.dense(), groups_of(Arrangement::Dense)),
      expert_(maker, layout_.expert(), groups_of(Arrangement::Expert)),
      by_level_(maker, layout_.by_level(), levels_of(layout_)),
      embedding_(make_among(maker, layout_.embedding_groups(), "embedding")),
      position_embedding_(make_among(maker, layout_.position_embedding_groups(), "position embedding")) {}

Communicator& JobMesh::cp_level(int level) {
  if (level < 0 || level >= layout_.levels())
    throw Error(Code::InvalidArgument, fmt::format("cp_level {}: expected 0..{}", level, layout_.levels() - 1));
  return layout_.levels() == 1 ? dense_.along("cp") : by_level_.along(fmt::format("cp{}", level));
}

}  // namespace sinew::parallel
