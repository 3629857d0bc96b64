#pragma once

#include <sinew/core/transport.hpp>

namespace sinew::test {

/// Counts how often the operation ended.
struct CountedEnd : Completion {
  CountedEnd() : Completion([](Completion& c) noexcept { ++static_cast<CountedEnd&>(c).fired; }) {}
  int fired = 0;
};

}  // namespace sinew::test
