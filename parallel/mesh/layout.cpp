#include <algorithm>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/mesh/layout.hpp>
#include <sinew/parallel/mesh/layout_arithmetic.hpp>
#include <sinew/parallel/mesh/layout_rules.hpp>

namespace sinew::parallel {
namespace {

LayoutRequest checked(int ranks, const LayoutSizes& sizes) {
  const std::vector<Violation> broken = violations(ranks, sizes);
  if (broken.empty()) return {ranks, sizes};
  throw Error(Code::InvalidArgument, fmt::format("layout of {} ranks breaks {} rule{}:\n{}", ranks, broken.size(),
                                                 broken.size() == 1 ? "" : "s", to_string(broken)));
}

std::vector<Axis> levels_of(const LayoutSizes& sizes) {
  if (sizes.cp_levels.empty()) return {{"cp0", sizes.cp}};
  std::vector<Axis> levels;
  for (const int size : sizes.cp_levels) levels.push_back({fmt::format("cp{}", levels.size()), size});
  return levels;
}

}  // namespace

Layout::Layout(int ranks, const LayoutSizes& sizes)
    : dense_(dense_axes(checked(ranks, sizes))),
      expert_(expert_axes({ranks, sizes})),
      by_level_(dense_.split("cp", levels_of(sizes))),
      levels_(std::max(static_cast<int>(sizes.cp_levels.size()), 1)) {}

std::vector<std::vector<int>> Layout::embedding_groups() const {
  std::vector<std::vector<int>> groups = dense_.groups("pp");
  for (std::vector<int>& pipeline : groups) {
    if (pipeline.size() > 1) pipeline = {pipeline.front(), pipeline.back()};
  }
  return groups;
}

std::vector<std::vector<int>> Layout::position_embedding_groups() const {
  std::vector<std::vector<int>> groups = dense_.groups("pp");
  for (std::vector<int>& pipeline : groups) pipeline = {pipeline.front()};
  return groups;
}

}  // namespace sinew::parallel
