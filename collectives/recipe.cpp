#include <sinew/collectives/coded.hpp>
#include <sinew/collectives/recipe.hpp>

namespace sinew {

std::string_view Recipe::name() const noexcept {
  const auto* algorithm = std::get_if<const Algorithm*>(&how_);
  return algorithm != nullptr ? (*algorithm)->name : kHierarchical;
}

Program Recipe::build(const CollectiveDesc& desc, int rank, int ranks, bool in_place) const {
  const auto* algorithm = std::get_if<const Algorithm*>(&how_);
  Program program = algorithm != nullptr ? build_program(**algorithm, desc, rank, ranks, in_place)
                                         : std::get<Composition>(how_).build(desc, rank, ranks, in_place);
  if (desc.codec == Codec::None) return program;
  return code_messages(desc.collective, std::move(program), [&](int peer) {
    return algorithm != nullptr || std::get<Composition>(how_).crosses(rank, peer);
  });
}

Schedule Recipe::build_all(const CollectiveDesc& desc, const std::vector<bool>& in_place) const {
  Schedule schedule{desc, {}};
  const int ranks = static_cast<int>(in_place.size());
  for (int rank = 0; rank < ranks; ++rank)
    schedule.programs.push_back(build(desc, rank, ranks, in_place[static_cast<std::size_t>(rank)]));
  return schedule;
}

}  // namespace sinew
