#pragma once

#include <cstdint>
#include <vector>

#include <sinew/parallel/pipeline/verify/dependencies.hpp>

namespace sinew::parallel {

/// The shortest circle of actions, each of which waits for the next one or comes after it on its rank, and the last for
/// the first, among actions that walk() has left. By number, the lowest first; of several always the same.
/// Shape: `taken` of a walk that has left some.
/// Cost:  at worst the square of what circles wait for.
std::vector<std::int32_t> shortest_cycle(const Inventory& inventory, const Dependencies& dependencies,
                                         const std::vector<std::int32_t>& taken);

}  // namespace sinew::parallel
