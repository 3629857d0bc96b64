#pragma once

#include <cstdint>
#include <vector>

#include <sinew/parallel/checkpoint/index/item.hpp>

namespace sinew::parallel {

/// Elements that two parts of an item have in common: how many, and where they are in each.
struct SharedElements {
  std::int64_t count = 0, stored_at = 0, wanted_at = 0;
};

/// Both ascending, as runs_of makes them. In order of stored_at and of wanted_at.
std::vector<SharedElements> shared_elements(const std::vector<ElementRun>& stored,
                                            const std::vector<ElementRun>& wanted);

/// What is left of `wanted` without what it shares.
std::vector<ElementRun> without(const std::vector<ElementRun>& wanted, const std::vector<SharedElements>& shared);

}  // namespace sinew::parallel
