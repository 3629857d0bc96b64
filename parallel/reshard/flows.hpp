#pragma once

#include <cstdint>
#include <vector>

#include <sinew/parallel/reshard/element_classes.hpp>

namespace sinew::parallel {

/// All elements that one rank sends to another rank, and that the receiver passes on to the same ranks.
struct Flow {
  int from = 0, to = 0;
  std::vector<int> passed_to;  ///< ranks of the receiver's host
  bool across_hosts = false;
  std::vector<ReshardSegment> segments;  ///< by item, dtype and element
};

/// Decides which rank sends which elements to whom.
/// copies: by rank, gets the elements that the rank both holds and wants.
std::vector<Flow> flows_of(const std::vector<ReshardFacts>& of_ranks, const std::vector<ElementClass>& classes,
                           std::vector<std::vector<ReshardSegment>>& copies);

}  // namespace sinew::parallel
