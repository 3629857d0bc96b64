#include <sinew/collectives/schedule/coded.hpp>
#include <sinew/collectives/selection/recipe.hpp>

namespace sinew {

std::string_view Recipe::name() const noexcept {
  if (const auto* algorithm = std::get_if<const Algorithm*>(&how_)) return (*algorithm)->name;
  if (const auto* ordered = std::get_if<Ordered>(&how_)) return ordered->algorithm->name;
  return kHierarchical;
}

Program Recipe::build(const CollectiveDesc& desc, int rank, int ranks, bool in_place) const {
  const auto* algorithm = std::get_if<const Algorithm*>(&how_);
  const auto* ordered = std::get_if<Ordered>(&how_);
  const auto* hierarchical = std::get_if<HierarchicalAlgorithm>(&how_);
  Program program = algorithm != nullptr ? build_program(**algorithm, desc, rank, ranks, in_place)
                    : ordered != nullptr ? ordered->build(desc, rank, in_place)
                                         : hierarchical->build(desc, rank, ranks, in_place);
  if (desc.codec == Codec::None) return program;
  return code_messages(desc.collective, std::move(program),
                       [&](int peer) { return hierarchical == nullptr || hierarchical->crosses(rank, peer); });
}

Schedule Recipe::build_all(const CollectiveDesc& desc, const std::vector<bool>& in_place) const {
  Schedule schedule{desc, {}};
  const int ranks = static_cast<int>(in_place.size());
  for (int rank = 0; rank < ranks; ++rank)
    schedule.programs.push_back(build(desc, rank, ranks, in_place[static_cast<std::size_t>(rank)]));
  return schedule;
}

}  // namespace sinew
