#pragma once

#include <cstdint>
#include <vector>

#include <sinew/parallel/pipeline/verify/dependencies.hpp>

namespace sinew::parallel {

/// The shortest circle among the actions that walk() has not taken. Each action of the circle waits for the next one,
/// or comes after it on its rank; the last one waits for the first. By number, the lowest first. If several circles are
/// equally short, the result is always the same one.
/// Shape: `taken` is the result of a walk that has left some actions.
/// Cost:  at worst the square of the actions that wait in circles.
std::vector<std::int32_t> shortest_cycle(const Inventory& inventory, const Dependencies& dependencies,
                                         const std::vector<std::int32_t>& taken);

}  // namespace sinew::parallel
