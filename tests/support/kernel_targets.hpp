#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sinew::test {

/// The instruction sets of this CPU that kernels are built for, one bit each, best first.
std::vector<std::int64_t> cpu_targets();

std::string target_name(std::int64_t target);

/// Kernels resolved while this lives are those of one instruction set.
class OnlyTarget {
 public:
  explicit OnlyTarget(std::int64_t target);
  ~OnlyTarget();
  OnlyTarget(const OnlyTarget&) = delete;
  OnlyTarget& operator=(const OnlyTarget&) = delete;
};

}  // namespace sinew::test
