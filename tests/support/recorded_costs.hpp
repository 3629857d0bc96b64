#pragma once

#include <map>
#include <string>

#include <sinew/core/call/cost.hpp>

namespace sinew::test {

/// What a cost cache says of the links of a host.
struct Links {
  std::map<std::string, CostCurve> curves;
  double copy_bytes_per_s = 0;
  double reduce_bytes_per_s = 0;
};

/// By machine, as measured there by the first job on it: not smoothed, knots within the clock's resolution and all.
const std::map<std::string, Links>& recorded_costs();

}  // namespace sinew::test
