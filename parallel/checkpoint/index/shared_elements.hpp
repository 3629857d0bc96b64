#pragma once

#include <cstdint>
#include <vector>

#include <sinew/parallel/checkpoint/index/item.hpp>

namespace sinew::parallel {

/// Elements that two parts of an item have in common: how many, and where they begin in each part.
struct SharedElements {
  std::int64_t count = 0, stored_at = 0, wanted_at = 0;
};

/// The elements that are in both lists. Both lists ascend, as runs_of makes them. The result is in the order of
/// stored_at and of wanted_at.
std::vector<SharedElements> shared_elements(const std::vector<ElementRun>& stored,
                                            const std::vector<ElementRun>& wanted);

}  // namespace sinew::parallel
