#pragma once

#include <cstdint>
#include <vector>

#include <sinew/parallel/pipeline/verify/dependencies.hpp>

namespace sinew::parallel {

/// The shortest cycle among the actions that walk() has not taken. Each action of the cycle waits for the next one, or
/// comes after it on its rank. In the same way the last action waits for the first. The result has the actions'
/// numbers, and begins with the lowest. If several cycles are equally short, the result is always the same one.
/// Shape: `taken` is the result of a walk() that could not take all actions.
/// Cost:  at worst the square of the actions that wait in cycles.
std::vector<std::int32_t> shortest_cycle(const Inventory& inventory, const Dependencies& dependencies,
                                         const std::vector<std::int32_t>& taken);

}  // namespace sinew::parallel
