#pragma once

#include <cstdint>
#include <vector>

#include <sinew/parallel/reshard/plan.hpp>

namespace sinew::parallel {

/// Elements, of any items, that the same ranks hold and the same ranks want, and that travel in the same dtype.
struct ElementClass {
  std::vector<int> holders, wanters;  ///< ascending ranks
  DType travels = DType::F32;
  std::vector<ReshardSegment> segments;
  std::int64_t elements = 0;
};

/// All items that ranks hold or want, by name, as they are held.
/// Errors: as plan_reshard, except for elements that nobody holds or that a rank wants twice.
std::vector<CheckpointItem> items_of(const std::vector<ReshardFacts>& of_ranks);

/// Sorts all wanted elements into classes. A class is in the place of its first element.
/// Errors: InvalidArgument for elements that nobody holds, or that a rank wants twice.
/// Cost:   a sweep over the runs of all parts.
std::vector<ElementClass> classes_of(const std::vector<ReshardFacts>& of_ranks,
                                     const std::vector<CheckpointItem>& items);

}  // namespace sinew::parallel
